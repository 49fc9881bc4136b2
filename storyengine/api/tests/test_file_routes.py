from typing import Any

import pytest
from django.test import Client

from sessions.models import Session
from storyengine.api.tests.calling import address, assert_problem, call
from storyengine.exchange.tests.chapters import make_whole_chapter
from storyengine.settings.import_limits import MAX_FILE_BYTES

pytestmark = pytest.mark.django_db

IMPORT = "/api/session/import"
JSON = "application/json"


def send(content: bytes, content_type: str = JSON) -> Any:
    return Client().generic("POST", IMPORT, content, content_type=content_type)


def test_a_chapter_goes_out_and_comes_in_under_a_new_address() -> None:
    chapter = make_whole_chapter()
    exported = call("GET", address(chapter, "export"))
    assert exported.status_code == 200
    response = send(exported.content)
    assert response.status_code == 201
    copy = Session.objects.exclude(pk=chapter.pk).get()
    assert response.headers["Location"] == address(copy)
    assert response.json()["session_id"] == str(copy.pk)
    assert len(response.json()["events"]) == len(call("GET", address(chapter)).json()["events"])


def test_a_file_over_its_limit_is_413() -> None:
    problem = assert_problem(send(b" " * (MAX_FILE_BYTES + 1)), 413, "chapter-file-too-large")
    assert "20,000,000" in problem["detail"]


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"format": "storyengine-chapter"}'])
def test_a_bad_file_is_422(content: bytes) -> None:
    problem = assert_problem(send(content), 422, "bad-chapter-file")
    assert problem["detail"].endswith("Nothing was imported.")
    assert not Session.objects.exists()


@pytest.mark.parametrize("content_type", ["text/plain", "multipart/form-data; boundary=x", ""])
def test_a_file_that_is_sent_as_something_else_is_415(content_type: str) -> None:
    content = call("GET", address(make_whole_chapter(), "export")).content
    assert send(content, content_type).status_code == 415
    assert Session.objects.count() == 1


def test_a_file_longer_than_other_bodies_is_taken() -> None:
    content = call("GET", address(make_whole_chapter(), "export")).content
    assert send(content + b" " * 2_000_000).status_code == 201
