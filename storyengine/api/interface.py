"""Adapts Django Ninja to this API: all errors are problems (RFC 9457), and all bodies are JSON."""

import json
from collections.abc import Awaitable, Callable
from functools import cached_property, wraps
from inspect import iscoroutinefunction
from typing import Any, NoReturn, cast

from django.http import Http404, HttpRequest, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.urls import URLPattern, URLResolver, re_path
from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.renderers import BaseRenderer

from storyengine.api.problems import (
    CONTENT_TYPE,
    Problem,
    make_problem,
    problem_response,
    to_json,
    unknown_path,
)

View = Callable[..., HttpResponseBase | Awaitable[HttpResponseBase]]

# The limit in bytes of a body that is not a file.
LARGEST_BODY = 1_000_000
# The name of the view that reads its body itself, because a file may be longer than other bodies.
_TAKES_FILE = "import_session"

HTTP_METHODS = ("get", "put", "post", "delete", "patch")


class UnreadableBody(ValueError):
    """The error for a body that is not JSON. Ninja answers 400 with this message."""


class StrictJsonParser(Parser):
    def parse_body(self, request: HttpRequest) -> dict[str, Any]:
        try:
            text = request.body.decode("utf-8-sig")
            return cast(dict[str, Any], json.loads(text, parse_constant=_refuse_constant))
        except UnreadableBody:
            raise
        except RecursionError as error:
            raise UnreadableBody("The body is nested too deeply.") from error
        except ValueError as error:
            # The body is not UTF-8, or it is not JSON, or it has a number with thousands of digits,
            # which Python refuses to read.
            raise UnreadableBody(f"The body cannot be read as JSON: {error}.") from error


class JsonRenderer(BaseRenderer):
    media_type = "application/json"

    def render(self, request: HttpRequest, data: Any, *, response_status: int) -> bytes:
        return to_json(data)


class ProblemAPI(NinjaAPI):
    @property
    def urls(self) -> tuple[list[URLResolver | URLPattern], str, str]:
        """Ninja's URL patterns, wrapped in the API's error handling, and a last pattern for all
        other addresses."""
        patterns, app_name, namespace = super().urls
        for pattern in patterns:
            if isinstance(pattern, URLPattern):
                takes_file = pattern.name == _TAKES_FILE
                pattern.callback = _in_api_form(pattern.callback, takes_file=takes_file)
        patterns.append(re_path("", _in_api_form(_unknown), name="unknown"))
        return patterns, app_name, namespace

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(
        self, *, path_prefix: str | None = None, path_params: dict[str, Any] | None = None
    ) -> OpenAPISchema:
        """Return the API's schema. It is made only once, because making it takes a second.

        This method ignores its arguments. The arguments would choose a prefix for the addresses in
        the schema, but this API always has the same prefix, which has no parameters.
        """
        return self._schema

    @cached_property
    def _schema(self) -> OpenAPISchema:
        """The API's schema. Ninja declares all answers as plain JSON, so this property gives
        problems their own media type."""
        schema = super().get_openapi_schema()
        for methods in schema["paths"].values():
            for method in HTTP_METHODS:
                for status, answer in methods.get(method, {}).get("responses", {}).items():
                    content = answer.get("content", {})
                    if int(status) >= 400 and self.renderer.media_type in content:
                        content[CONTENT_TYPE] = content.pop(self.renderer.media_type)
        schema["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        # The empty entry says that requests without a token are possible, because no token is
        # needed if neither a password nor a token is set.
        schema["security"] = [{}, {"token": []}]
        return schema


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableBody(f"The body cannot be read as JSON: {name} is no number.")


def _unknown(request: HttpRequest) -> HttpResponseBase:
    raise Http404


def _in_api_form(view: View, *, takes_file: bool = False) -> Callable[..., HttpResponseBase]:
    """Return the view with the API's error handling around it. A body that is too large or is not
    JSON is refused, and errors become problems."""
    if iscoroutinefunction(view):

        @wraps(view)
        async def answer_async(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            if problem := _refuse_body(request):
                return problem_response(problem)
            return _finish(request, await view(request, *args, **kwargs))

        return _without_csrf(answer_async)

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        problem = _refuse_type(request) if takes_file else _refuse_body(request)
        if problem:
            return problem_response(problem)
        try:
            response = cast(HttpResponseBase, view(request, *args, **kwargs))
        except Http404:
            response = problem_response(unknown_path(request))
        return _finish(request, response)

    return _without_csrf(answer)


def _without_csrf(view: View) -> Callable[..., HttpResponseBase]:
    """Exempt a view from Django's CSRF check. storyengine.access checks the origin and the token of
    API calls instead."""
    view.csrf_exempt = True  # type: ignore[attr-defined]
    # Django accepts async views as well, but its type stubs name only sync ones.
    return cast(Callable[..., HttpResponseBase], view)


def _refuse_body(request: HttpRequest) -> Problem | None:
    """Return a refusal if the body is too large or is not declared as JSON. A form on another site
    cannot declare its body as JSON."""
    size = len(request.body)
    if size > LARGEST_BODY:
        detail = f"The body is larger than {LARGEST_BODY:,} bytes. Nothing was changed."
        return make_problem(request, 413, "too-large", "Too large", detail)
    return None if not (size or request.content_type) else _refuse_type(request)


def _refuse_type(request: HttpRequest) -> Problem | None:
    if request.method in ("GET", "HEAD", "OPTIONS"):
        return None
    if request.content_type != "application/json":
        detail = "Send JSON with Content-Type: application/json. Nothing was changed."
        return make_problem(request, 415, "not-json", "Not JSON", detail)
    return None


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    if isinstance(response, HttpResponseNotAllowed):
        allowed = ", ".join(sorted(response.headers["Allow"].split(", ")))
        detail = f"{request.method} does not work here; {allowed} does."
        problem = make_problem(request, 405, "wrong-method", "Wrong method", detail)
        response = problem_response(problem, {"Allow": allowed})
    response.headers.setdefault("Cache-Control", "no-store")
    return response
