"""Stories are exported and imported on pages and through the API."""

from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from django.urls import reverse

from memory.tests.factories import add_lock
from sessions.chapter.stories import begin_next_chapter
from sessions.models import Session, Story
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.api.tests.calling import call

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
