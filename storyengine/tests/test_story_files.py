"""Stories are exported and imported on pages and through the API."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memory.tests.factories import add_lock
from sessions.chapter.stories import begin_next_chapter
from sessions.models import Session, Story
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.api.tests.calling import assert_problem, call
from storyengine.exchange.exporting import export_chapter

pytestmark = pytest.mark.django_db


@pytest.fixture
def first() -> Session:
    chapter = make_active_chapter(title="The Lamp")
    add_lock(chapter, {})
    add_prompts(chapter, 2)
    begin_next_chapter(chapter.story_id)
    return chapter


def send(client: Client, content: bytes) -> Any:
    upload = SimpleUploadedFile("a file.json", content, "application/json")
    return client.post(reverse("pages:import"), {"file": upload})


def test_a_story_goes_from_its_menu_through_the_form_of_the_home_page(
    client: Client, first: Session
) -> None:
    address = reverse("pages:export-story", args=[first.story_id])
    assert address in client.get("/").content.decode()
    file = client.get(address)
    assert 'filename="the-lamp.story.json"' in file["Content-Disposition"]
    answer = send(client, file.getvalue())
    assert answer["Location"] == "/"
    assert Story.objects.count() == 2
    assert sorted(Session.objects.values_list("place", flat=True)) == [1, 1, 2, 2]


def test_the_same_form_takes_a_chapter(client: Client, first: Session) -> None:
    send(client, export_chapter(first.pk).to_json())
    assert Story.objects.count() == 2
    assert Session.objects.count() == 3


def test_a_damaged_story_is_refused_on_the_page(client: Client, first: Session) -> None:
    content = client.get(reverse("pages:export-story", args=[first.story_id])).getvalue()
    answer = send(client, content.replace(b'"place":2', b'"place":0'))
    assert answer.status_code == 422
    assert Story.objects.count() == 1


def test_the_api_exports_and_imports(first: Session) -> None:
    path = f"/api/story/{first.story_id}"
    content = call("GET", f"{path}/export").json()
    assert content["format"] == "storyengine-story"
    answer = call("POST", "/api/story/import", content)
    assert answer.status_code == 201
    document = answer.json()
    assert answer["Location"] == f"/api/story/{document['story_id']}"
    assert [one["place"] for one in document["chapters"]] == [1, 2]
    again = call("GET", f"/api/story/{document['story_id']}/export").json()
    assert again["story"] == content["story"]


def test_the_api_refuses_another_file_with_the_place(first: Session) -> None:
    path = f"/api/story/{first.story_id}"
    content = call("GET", f"{path}/export").json()
    content["story"]["chapters"][1]["follows"] = 1
    problem = assert_problem(call("POST", "/api/story/import", content), 422, "bad-chapter-file")
    assert problem["detail"].startswith("story.chapters[1].follows is no chapter before")
    chapter = json.loads(export_chapter(first.pk).to_json())
    assert call("POST", "/api/story/import", chapter).status_code == 422
    assert Story.objects.count() == 1
