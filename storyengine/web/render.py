"""Page or partial: the one place that knows whether htmx asked."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails


class HttpRequest(DjangoHttpRequest):
    """A request as the middleware leaves it."""

    htmx: HtmxDetails


def show(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """A rendered template that no cache keeps: what a chapter looks like changes under the page."""
    response = render(request, template, dict(context), status=status)
    add_never_cache_headers(response)
    return response


def answer(
    request: HttpRequest, *, partial: str, context: Mapping[str, Any], page: str
) -> HttpResponse:
    """After a form: htmx gets the partial, a plain form is sent to the page's address."""
    if request.htmx:
        return show(request, partial, context)
    return HttpResponseRedirect(page)


def go(request: HttpRequest, address: str) -> HttpResponse:
    """Leave the page for another address, whoever asked."""
    if request.htmx:
        return HttpResponseClientRedirect(address)
    return HttpResponseRedirect(address)


def nothing_new() -> HttpResponse:
    """The answer to a poll when the page shows everything already."""
    return HttpResponse(status=204)
