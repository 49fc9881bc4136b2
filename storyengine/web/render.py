"""Answers with a part of a page if htmx sent the request, and with a whole page otherwise."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers
from django_htmx.http import HttpResponseClientRedirect
from django_htmx.middleware import HtmxDetails


class HttpRequest(DjangoHttpRequest):
    """A request with the attribute that django_htmx adds."""

    htmx: HtmxDetails


def show(
    request: HttpRequest, template: str, context: Mapping[str, Any], *, status: int = 200
) -> HttpResponse:
    """Return a rendered template. No cache may keep it, because a chapter changes while its page is
    open."""
    response = render(request, template, dict(context), status=status)
    add_never_cache_headers(response)
    return response


def answer(
    request: HttpRequest, *, partial: str, context: Mapping[str, Any], page: str
) -> HttpResponse:
    """Answer a form: with the partial if htmx sent the form, or else with a redirect to the
    page."""
    if request.htmx:
        return show(request, partial, context)
    return HttpResponseRedirect(page)


def go(request: HttpRequest, address: str) -> HttpResponse:
    """Send the browser to another address, with or without htmx."""
    if request.htmx:
        return HttpResponseClientRedirect(address)
    return HttpResponseRedirect(address)


def nothing_new() -> HttpResponse:
    """Return an answer without content, for a poll of a page that is up to date."""
    return HttpResponse(status=204)
