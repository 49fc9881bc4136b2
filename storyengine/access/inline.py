"""The base class of middleware that only computes. Such middleware runs in the event loop and needs
no thread."""

from collections.abc import Awaitable, Callable
from typing import ClassVar, cast

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest
from django.http.response import HttpResponseBase

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


class InlineMiddleware:
    """A middleware that calls `before` and `after`. Subclasses override these methods, which must
    not wait for anything."""

    sync_capable: ClassVar[bool] = True
    async_capable: ClassVar[bool] = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        self.is_async = iscoroutinefunction(get_response)
        if self.is_async:
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        if self.is_async:
            return self._answer(request)
        response = self.before(request) or cast(HttpResponseBase, self.get_response(request))
        return self.after(response)

    async def _answer(self, request: HttpRequest) -> HttpResponseBase:
        response = self.before(request)
        if response is None:
            response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        return self.after(response)

    def before(self, request: HttpRequest) -> HttpResponseBase | None:
        """Return a response that refuses the request, or None if the request is not refused."""
        return None

    def after(self, response: HttpResponseBase) -> HttpResponseBase:
        return response
