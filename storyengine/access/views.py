import logging
from threading import Lock

from axes.handlers.proxy import AxesProxyHandler
from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, login, logout
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.crypto import constant_time_compare
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from sessions import counts
from sessions.log_lines import warn
from storyengine.access.game_master import USERNAME
from storyengine.access.visitors import WaitingTries

logger = logging.getLogger(__name__)

# The limit in bytes of a login form, which has a password, an address and a CSRF token. A larger
# form is refused, because parts of a failed try are stored.
_LARGEST_FORM = 10_000
# With this lock, a process tries only one wrong password at a time. Otherwise many passwords that
# come at once would all be tried before the first of them is counted. If there are several
# processes, each of them can try one password at the same moment. The right password does not use
# the lock, so that strangers keep nobody waiting.
_one_try = Lock()
_waiting = WaitingTries()


class PasswordForm(forms.Form):
    password = forms.CharField(max_length=1000, strip=False)


@require_safe
async def healthz(request: HttpRequest) -> JsonResponse:
    """Answer that this process serves requests.

    The database is not asked, because a slow database is no reason to restart the process.
    """
    return JsonResponse({"status": "ok"})


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "POST"])
def log_in(request: HttpRequest) -> HttpResponse:
    next_url = _next_url(request)
    if not settings.PASSWORD:
        return HttpResponseRedirect(next_url)
    error = ""
    status = 200
    if request.method == "POST":
        error, status = _try_password(request)
        if not error:
            return HttpResponseRedirect(next_url)
    return render(request, "login.html", {"next": next_url, "error": error}, status=status)


def _try_password(request: HttpRequest) -> tuple[str, int]:
    """Log in with the password in the form, and return ("", 200). If the login fails, return the
    reason and the HTTP status."""
    form = PasswordForm(request.POST)
    if not form.is_valid() or int(request.META.get("CONTENT_LENGTH") or 0) > _LARGEST_FORM:
        return "Type the password.", 422
    user, is_paused = _check_password(request, form.cleaned_data["password"])
    if user is None:
        _note_failure(request, was_looked_at=not is_paused)
    if is_paused:
        return "Too many wrong passwords. Wait five minutes and try again.", 429
    if user is None:
        return "That is not the password.", 403
    login(request, user)
    return "", 200


def _check_password(request: HttpRequest, password: str) -> tuple[User | None, bool]:
    """Return the account if the password is right, and whether the visitor has sent too many wrong
    passwords. Even the right password is then refused."""
    credentials = {"username": USERNAME, "password": password}
    if constant_time_compare(password, settings.PASSWORD):
        failures = AxesProxyHandler.get_failures(request, credentials) + _waiting.count(request)
        if failures >= settings.AXES_FAILURE_LIMIT:
            return None, True
        user = authenticate(request, **credentials)
    else:
        with _waiting.one_more(request), _one_try:
            user = authenticate(request, **credentials)
    return user, getattr(request, "axes_locked_out", False)


def _note_failure(request: HttpRequest, *, was_looked_at: bool) -> None:
    address = request.META.get("REMOTE_ADDR", "")
    warn(logger, "login failed", address=address, tried=was_looked_at)
    counts.login_failures.inc()


@require_POST
def log_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGIN_URL)


def _next_url(request: HttpRequest) -> str:
    """Return the address that the browser opens after the login: the address that the form names,
    or the first page if that address is on another host."""
    wanted = request.POST.get("next") or request.GET.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return wanted if is_ours else resolve_url(settings.LOGIN_REDIRECT_URL)
