import json
from typing import Any

import pytest
from django.test import Client, RequestFactory
from django.urls import resolve

from sessions.models import Session
from sessions.tests.factories import make_chapter
from storyengine.api.interface import LARGEST_BODY
from storyengine.api.problems import to_json
from storyengine.api.tests.calling import address, assert_problem

pytestmark = pytest.mark.django_db

JSON = "application/json"


def send(path: str, content: str | bytes, content_type: str = JSON, method: str = "PUT") -> Any:
    return Client().generic(method, path, content, content_type=content_type)


@pytest.mark.parametrize(
    "path",
    [
        "/api/",
        "/api/nothing",
        "/api/session/",
        "/api/session/1/prompt",
        "/api/session/%ff",
        "/api/session/00000000-0000-0000-0000-000000000000/nothing",
        "/api/docs/x",
        "/api/%00",
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_an_unknown_path_is_404(method: str, path: str) -> None:
    response = Client(enforce_csrf_checks=True).generic(method, path)
    problem = assert_problem(response, 404, "unknown-address")
    assert "/api/docs" in problem["detail"]


@pytest.mark.parametrize(
    ("method", "action", "allowed"),
    [
        ("GET", "prompt", "POST"),
        ("GET", "lock", "POST"),
        ("POST", "tab1", "GET, PUT"),
        ("PUT", "", "DELETE, GET, PATCH"),
        ("OPTIONS", "reset", "POST"),
    ],
)
def test_a_method_that_does_not_work_here_is_405(method: str, action: str, allowed: str) -> None:
    response = Client(enforce_csrf_checks=True).generic(method, address(make_chapter(), action))
    assert_problem(response, 405, "wrong-method")
    assert response.headers["Allow"] == allowed


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/octet-stream",
        "",
    ],
)
def test_a_body_that_is_not_json_is_415(content_type: str) -> None:
    chapter = make_chapter()
    response = send(address(chapter, "tab1"), b'{"world_text": "x"}', content_type)
    assert response.status_code == 415
    assert response.headers["Content-Type"] == "application/problem+json"
    chapter.tab1.refresh_from_db()
    assert chapter.tab1.world_text != "x"


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x"])
def test_a_form_without_fields_cannot_act_either(content_type: str) -> None:
    chapter = make_chapter()
    response = Client().generic("POST", address(chapter, "reset"), b"", CONTENT_TYPE=content_type)
    assert_problem(response, 415, "not-json")
    assert Session.objects.filter(pk=chapter.pk).exists()


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"",
        b"{'a': 1}",
        b"NaN",
        b'{"world_text": "\xff"}',
        b'{"world_text": "a\nb"}',
        b"[" * 200_000,
        b'{"a":' * 100_000,
        b'{"target_words": ' + b"9" * 5_000 + b"}",
        b'{"target_words": Infinity}',
        '{"world_text": "x"}'.encode("utf-16"),
        b"\x00",
    ],
)
def test_what_is_not_json_at_all_is_a_clear_refusal(content: bytes) -> None:
    response = send(address(make_chapter(), "tab1"), content)
    status, kind = (400, "unreadable") if content else (422, "invalid-input")
    assert_problem(response, status, kind)


def test_a_bug_is_answered_as_a_problem_and_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_down(_: Any, **_how: Any) -> None:
        raise ZeroDivisionError("the words of a story")

    monkeypatch.setattr("storyengine.api.chapter_routes.read_session", break_down)
    response = Client(raise_request_exception=False).get(address(make_chapter()))
    problem = assert_problem(response, 500, "internal-error")
    assert "story" not in problem["detail"]
    assert "ZeroDivisionError" in caplog.text


def test_json_carries_everything_that_can_be_stored() -> None:
    text = 'ночь \ud800 \u2028 "\\\n\x00'
    assert json.loads(to_json({"text": text})) == {"text": text}


def test_a_body_of_unknown_length_is_measured() -> None:
    """The request has no Content-Length header. A body that is sent in chunks has none either."""
    path = address(make_chapter(), "tab1")
    content = b" " * (LARGEST_BODY + 1)
    request = RequestFactory().put(path, content, content_type=JSON)
    del request.META["CONTENT_LENGTH"]
    found = resolve(path)
    response = found.func(request, *found.args, **found.kwargs)
    assert_problem(response, 413, "too-large")
