"""Django's middleware for browsers, changed to run in the event loop.

By default Django would run the methods of this middleware in threads, with ten changes of thread in
a request. These changes would delay the streams of replies. The methods need no thread, because
they only compute. Only the storing of a changed session still runs in a thread.
"""

from collections.abc import Awaitable, Callable
from typing import Any, cast

from asgiref.sync import sync_to_async
from django.contrib.messages import middleware as messages
from django.contrib.sessions import middleware as sessions
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware import clickjacking, csrf, security
from django.utils.deprecation import MiddlewareMixin


class RunInline(MiddlewareMixin):
    async def __acall__(self, request: HttpRequest) -> HttpResponseBase:
        steps = cast(Any, self)
        response = steps.process_request(request) if hasattr(self, "process_request") else None
        if response is None:
            response = await cast(Awaitable[HttpResponseBase], self.get_response(request))
        return await self.finish(request, response)

    async def finish(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        return cast(HttpResponseBase, cast(Any, self).process_response(request, response))


class SecurityMiddleware(RunInline, security.SecurityMiddleware):
    pass


class XFrameOptionsMiddleware(RunInline, clickjacking.XFrameOptionsMiddleware):
    pass


class MessageMiddleware(RunInline, messages.MessageMiddleware):
    """Django's middleware for messages, in the event loop. Its MESSAGE_STORAGE reads no
    database."""


class SessionMiddleware(RunInline, sessions.SessionMiddleware):
    async def finish(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        process: Callable[[HttpRequest, Any], Any] = self.process_response
        if request.session.modified:
            return cast(HttpResponseBase, await sync_to_async(process)(request, response))
        return cast(HttpResponseBase, process(request, response))


class CsrfViewMiddleware(RunInline, csrf.CsrfViewMiddleware):
    def __init__(self, get_response: Any) -> None:
        super().__init__(get_response)
        if self.async_mode:
            # Django runs this method in a thread unless the attribute `process_view` of the
            # instance is an async function.
            self.process_view = self._process_view_inline  # type: ignore[assignment]

    async def _process_view_inline(self, *args: Any) -> Any:
        return super().process_view(*args)
