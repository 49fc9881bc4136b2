"""Tests of stories through the API."""

import uuid

import pytest

from memory.models import NarrativeDraft
from sessions.models import Session, Story
from sessions.tests.factories import add_turn, make_active_chapter, make_chapter
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def story() -> Story:
    first = make_active_chapter(title="One")
    make_chapter(title="Two", story=first.story, place=2)
    return first.story


def path(story: Story, *more: str) -> str:
    return "/".join(("/api/story", str(story.pk), *more))


def listed(query: str = "") -> list[str]:
    return [one["title"] for one in call("GET", f"/api/story{query}").json()["items"]]


def test_a_story_has_its_chapters_in_order(story: Story) -> None:
    document = call("GET", path(story)).json()
    assert (document["title"], document["archived_at"]) == ("One", None)
    assert [(one["title"], one["place"]) for one in document["chapters"]] == [
        ("One", 1),
        ("Two", 2),
    ]
    assert call("GET", "/api/story").json() == {"count": 1, "items": [document]}


@pytest.mark.parametrize(
    "change", [{}, {"title": ""}, {"title": "x" * 121}, {"title": " ", "is_archived": True}]
)
def test_a_bad_change_changes_nothing(story: Story, change: dict[str, object]) -> None:
    assert call("PATCH", path(story), change).status_code == 422
    story.refresh_from_db()
    assert (story.title, story.archived_at) == ("", None)


def test_a_deleted_story_is_hidden_and_can_be_brought_back(story: Story) -> None:
    before = call("GET", path(story)).json()
    assert call("DELETE", path(story)).status_code == 204
    assert listed() == []
    for method, address_ in (("GET", path(story)), ("DELETE", path(story))):
        assert_problem(call(method, address_), 404, "unknown-story")
    one = Session.everything.get(title="One")
    assert_problem(call("GET", address(one)), 404, "unknown-chapter")
    assert call("POST", path(story, "restore")).json() == before


def test_a_search_finds_titles_and_what_was_said(story: Story) -> None:
    other = make_active_chapter(title="Other")
    add_turn(other, 1, words="Go on.", reply="I hide the brass compass.")
    assert listed("?q=compass+BRASS") == ["Other"]
    assert listed("?q=two") == ["One"]
    assert listed("?q=two&state=ended") == []
    assert listed("?sort=title") == ["One", "Other"]
    assert len(listed("?limit=1")) == 1


def test_the_next_chapter_follows_the_last(story: Story) -> None:
    answer = call("POST", path(story, "chapter"))
    assert answer.status_code == 201
    document = answer.json()
    assert (document["story_id"], document["place"]) == (str(story.pk), 3)
    assert document["state"] == "DRAFT_TAB1"
    assert answer["Location"] == f"/api/session/{document['session_id']}"
    assert_problem(call("POST", f"/api/story/{uuid.uuid4()}/chapter"), 404, "unknown-story")


def test_its_prose_comes_as_one_book(story: Story) -> None:
    assert_problem(call("GET", path(story, "text")), 409, "wrong-state")
    one, two = story.chapters.order_by("place")
    fork = make_chapter(title="Fork", story=story, is_chosen=False)
    for chapter, text in ((one, "Old."), (one, "Night."), (two, "Morning."), (fork, "Not this.")):
        NarrativeDraft.objects.create(
            session=chapter, target_words=100, source_snapshot={}, chapter_text=text
        )
    book = call("GET", path(story, "text?format=md"))
    text = book.content.decode()
    places = [text.index(words) for words in ("# One", "Night.", "Two", "Morning.")]
    assert places == sorted(places)
    assert "Old." not in text
    assert "Not this." not in text
    assert 'filename="one.md"' in book["Content-Disposition"]
    assert call("GET", path(story, "text?format=epub")).content.startswith(b"PK")
    assert call("GET", path(story, "text?format=pdf")).status_code == 422
