from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from storyengine.access import throttle
from storyengine.access.game_master import USERNAME, store_password


class PasswordForm(forms.Form):
    password = forms.CharField(max_length=1000, strip=False)


@require_safe
async def healthz(request: HttpRequest) -> JsonResponse:
    """The process serves; nothing else is asked, so that a slow database does not restart it."""
    return JsonResponse({"status": "ok"})


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    next_url = _next_url(request)
    if not settings.PASSWORD:
        return redirect(next_url)
    error = ""
    status = 200
    if request.method == "POST":
        error, status = _try_password(request)
        if not error:
            return redirect(next_url)
    return render(request, "login.html", {"next": next_url, "error": error}, status=status)


def _try_password(request: HttpRequest) -> tuple[str, int]:
    """Log in; otherwise say why not."""
    form = PasswordForm(request.POST)
    if not form.is_valid():
        return "Type the password.", 422
    if not throttle.take_try(request):
        return "Too many wrong passwords. Wait five minutes and try again.", 429
    store_password()
    user = authenticate(request, username=USERNAME, password=form.cleaned_data["password"])
    if user is None:
        return "That is not the password.", 403
    throttle.give_back_try(request)
    login(request, user)
    return "", 200


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGIN_URL)


def _next_url(request: HttpRequest) -> str:
    """Where to go after the login: an address of this host, or the first page."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if is_ours else resolve_url(settings.LOGIN_REDIRECT_URL)
