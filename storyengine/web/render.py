"""Answers with a part of a page if htmx made the request, and otherwise with a whole page."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails


class HttpRequest(DjangoHttpRequest):
    """A request with the attributes that the middleware has added."""

    htmx: HtmxDetails


def show(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Return a rendered template. No cache keeps it, because a chapter changes while its page is
    open."""
    response = render(request, template, dict(context), status=status)
    add_never_cache_headers(response)
    return response


def answer(
    request: HttpRequest, *, partial: str, context: Mapping[str, Any], page: str
) -> HttpResponse:
    """Answer a form. The answer is the partial if htmx sent the form, or a redirect to the page."""
    if request.htmx:
        return show(request, partial, context)
    return HttpResponseRedirect(page)


def go(request: HttpRequest, address: str) -> HttpResponse:
    """Send the browser to another address. This works with and without htmx."""
    if request.htmx:
        return HttpResponseClientRedirect(address)
    return HttpResponseRedirect(address)


def nothing_new() -> HttpResponse:
    """Answer a poll of a page that already shows everything."""
    return HttpResponse(status=204)
