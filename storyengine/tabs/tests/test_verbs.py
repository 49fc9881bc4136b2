import re
import uuid

import pytest
from django.test import Client
from django.urls import URLPattern, reverse
from django.urls.converters import IntConverter

from storyengine.tabs.urls import of_a_chapter, urlpatterns

READ = {
    *("library", "modes", "chapter", "world", "lock-status", "play", "play-status", "stream"),
    *("transcript", "draft", "draft-status", "download-transcript", "download-everything"),
    *("download-draft", "export", "consent", "model-status", "canon", "question"),
    *("prompt-calls", "memory-calls", "draft-calls", "usage", "build-estimate"),
    "chapter-models",
    *("try", "trial", "trial-status", "confirm-end", "confirm-fork"),
    *("turn", "older", "search"),
    *("edit", "receipts", "told", "rebuild-scene", "download-story"),
    *("models", "export-story", "read", "read-story", "edit-draft", "differences"),
}
OF_NONE = [one for one in urlpatterns if isinstance(one, URLPattern)]
OF_A_CHAPTER = [str(one.name) for one in of_a_chapter]
OF_A_STORY = [str(one.name) for one in OF_NONE if "story_id" in one.pattern.converters]
PATTERNS = {str(one.name): one for one in (*OF_NONE, *of_a_chapter)}
NAMES = list(PATTERNS)


def some_address(name: str) -> str:
    values: dict[str, object] = {
        key: 1 if isinstance(converter, IntConverter) else uuid.uuid4()
        for key, converter in PATTERNS[name].pattern.converters.items()
    }
    if name in OF_A_CHAPTER:
        values["session_id"] = uuid.uuid4()
    return reverse(f"pages:{name}", kwargs=values)


def test_every_address_that_only_reads_exists() -> None:
    assert set(NAMES) >= READ


def test_every_address_is_tried_here() -> None:
    assert len(OF_NONE) == len(urlpatterns) - 1, "All but the pages of a chapter."
    assert len(NAMES) == len(OF_NONE) + len(of_a_chapter), "Two have one name."


@pytest.mark.django_db
@pytest.mark.parametrize("name", NAMES)
def test_the_wrong_verb_is_refused(name: str) -> None:
    client = Client()
    refused = client.post if name in READ else client.get
    assert refused(some_address(name)).status_code == 405


@pytest.mark.django_db
@pytest.mark.parametrize("name", [*OF_A_CHAPTER, *OF_A_STORY])
def test_an_unknown_chapter_or_story_is_not_found(name: str) -> None:
    client = Client()
    asked = client.get if name in READ else client.post
    fields = {"agent_slot": "1", "user_text": "x", "title": "x", "layer": "1"}
    fields |= {"number": "1", "attempt_id": str(uuid.uuid4())}
    response = asked(some_address(name), fields)
    assert response.status_code == 404
    assert re.search(r"No such|There is no such", response.content.decode())
