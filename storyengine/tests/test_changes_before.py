"""A later change of the chapter before is announced in the next one, on pages and in the API."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from memory.before.handed_on import what_holds
from memory.before.story_so_far import write_story_so_far
from memory.canon.corrections import write_correction
from memory.fold.folding import fold_chapter
from memory.tests.factories import add_delta, add_lock
from sessions.chapter.chapters import reset_chapter
from sessions.chapter.stories import (
    begin_next_chapter,
    choose_chapter,
    hide_chapter,
    restore_chapter,
)
from sessions.models import Session, State
from sessions.play.committing import edit_reply
from sessions.tests.factories import add_prompts, add_turn, make_active_chapter
from storyengine.api.tests.calling import address as api_address
from storyengine.api.tests.calling import assert_problem, call
from storyengine.exchange.forking import fork_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of

pytestmark = [pytest.mark.django_db, pytest.mark.servers]


@pytest.fixture
def first() -> Session:
    chapter = make_active_chapter(
        title="The Lamp", agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"}
    )
    add_lock(chapter, {})
    add_prompts(chapter, 3)
    add_delta(chapter, 1, 3, {"canon_locks": ["The lamp is lit."]})
    return chapter


@pytest.fixture
def chapter(first: Session) -> Session:
    following = begin_next_chapter(first.story_id)
    write_story_so_far(following)
    add_lock(following, {})
    Session.objects.filter(pk=following.pk).update(state=State.ACTIVE, tab1_locked=True)
    return Session.objects.get(pk=following.pk)


def told(client: Client, chapter: Session, tab: str = "play") -> str:
    """Return the words of the announcement, or ""."""
    html = client.get(address(chapter, tab)).content.decode()
    return " ".join(one.words for one in all_of(html, "section", "before-changed"))


def renew(chapter: Session) -> Any:
    return call("POST", api_address(chapter, "before/renew"))


def canon(chapter: Session) -> list[object]:
    return what_holds(fold_chapter(chapter), chapter.characters)["canon_locks"]


def play_on(first: Session) -> None:
    number = first.prompt_index + 1
    add_turn(first, number, words="More.", reply="Yes.")
    Session.objects.filter(pk=first.pk).update(prompt_index=number)


def correct(first: Session) -> None:
    write_correction(first.pk, canon="The lamp is out.", replaces="The lamp is lit.")


def choose_fork(first: Session) -> None:
    choose_chapter(fork_chapter(first.pk, 2).pk)


CHANGES: list[tuple[Callable[[Session], object], str]] = [
    (play_on, "It was played on by 1 prompt."),
    (lambda first: edit_reply(first.pk, 3, "Other words."), "Its last turn has another reply."),
    (correct, "Its memory was corrected."),
    (lambda first: add_delta(first, 1, 3, {}, audience=[1]), "Its memory tells more."),
    (choose_fork, "The story goes by another chapter there now: “The Lamp (2)”."),
    (lambda first: hide_chapter(first.pk), "It was deleted."),
    (lambda first: reset_chapter(first.pk), "another chapter there now: “Untitled chapter”."),
]


def test_nothing_is_said_while_nothing_has_changed(
    client: Client, first: Session, chapter: Session
) -> None:
    for one in (first, chapter):
        assert told(client, one) == ""
    assert call("GET", api_address(first)).json()["before"] is None
    assert call("GET", api_address(chapter)).json()["before"] == {
        "session_id": str(first.pk),
        "changes": [],
        "can_renew": True,
    }


@pytest.mark.parametrize(("change", "sentence"), CHANGES)
def test_a_change_is_told_on_every_tab_and_in_the_api(
    client: Client,
    first: Session,
    chapter: Session,
    change: Callable[[Session], object],
    sentence: str,
) -> None:
    change(first)
    for tab in ("world", "play", "draft"):
        assert sentence in told(client, chapter, tab)
    document = call("GET", api_address(chapter)).json()["before"]
    assert sentence in " ".join(document["changes"])


def test_until_the_first_prompt_one_click_renews_what_is_remembered(
    client: Client, first: Session, chapter: Session
) -> None:
    correct(first)
    assert canon(chapter) == ["The lamp is lit."]
    client.post(address(chapter, "renew-before"))
    assert canon(chapter) == ["The lamp is out."]
    assert told(client, chapter) == ""


class TestAfterTheFirstPrompt:
    @pytest.fixture
    def chapter(self, chapter: Session) -> Session:
        add_prompts(chapter, 1)
        return Session.objects.get(pk=chapter.pk)

    def test_nothing_is_offered_that_would_change_history(
        self, client: Client, first: Session, chapter: Session
    ) -> None:
        correct(first)
        assert "go on remembering it as it was" in told(client, chapter)
        html = client.get(address(chapter, "play")).content.decode()
        actions = [one.attributes.get("action") for one in all_of(html, "form")]
        assert address(chapter, "keep-before") in actions
        assert address(chapter, "renew-before") not in actions
        assert_problem(renew(chapter), 409, "wrong-state")
        assert canon(chapter) == ["The lamp is lit."]


def test_a_deleted_chapter_can_be_brought_back_and_its_memory_stays(
    client: Client, first: Session, chapter: Session
) -> None:
    hide_chapter(first.pk)
    assert_problem(renew(chapter), 409, "wrong-state")
    assert canon(chapter) == ["The lamp is lit."]
    restore_chapter(first.pk)
    assert told(client, chapter) == ""
