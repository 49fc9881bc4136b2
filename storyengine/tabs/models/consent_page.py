"""The page on which the GM allows or refuses to send texts to a host. It says which texts would be
sent."""

import uuid

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.calling.consent import (
    grant,
    granted_hosts,
    hosts_to_allow,
    is_allowed,
    provider_host,
    withdraw,
)
from agents.calling.model_access import provider_label
from agents.modes.registry import all_modes
from storyengine.web.render import HttpRequest, show


@require_safe
def show_consent(request: HttpRequest) -> HttpResponse:
    asked = request.GET.get("host", "")
    host = asked if asked in hosts_to_allow() else provider_host()
    context = {
        "host": host,
        "is_allowed": bool(host) and is_allowed(host),
        "others": [consent for consent in granted_hosts() if consent.host != host],
        "model": provider_label(),
        "modes": all_modes(),
        "back": _chapter_to_return_to(request.GET.get("chapter", "")),
    }
    return show(request, "consent/consent.html", context)


@require_POST
def allow(request: HttpRequest) -> HttpResponse:
    """Allow the host, and redirect to the chapter that the user came from."""
    grant(request.POST.get("host", ""))
    back = _chapter_to_return_to(request.POST.get("chapter", ""))
    if back is not None:
        return HttpResponseRedirect(reverse("pages:chapter", args=[back]))
    return _return_to_page(request)


@require_POST
def withdraw_host(request: HttpRequest) -> HttpResponse:
    withdraw(request.POST.get("host", ""))
    return _return_to_page(request)


def _return_to_page(request: HttpRequest) -> HttpResponse:
    back = _chapter_to_return_to(request.POST.get("chapter", ""))
    address = reverse("pages:consent")
    return HttpResponseRedirect(f"{address}?chapter={back}" if back else address)


def _chapter_to_return_to(text: str) -> uuid.UUID | None:
    """Return the text as the id of a chapter, or None if it is no id.

    The page makes a link from this id. Without the check, the link could lead to another site.
    """
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
