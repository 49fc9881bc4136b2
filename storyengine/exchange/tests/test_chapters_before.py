"""Tests of the passages of the chapters before, on both databases."""

import random
import uuid

import pytest

from memory.before.story_so_far import write_story_so_far
from memory.canon.corrections import write_correction
from memory.recall.recalling import Passage, Reader, recall
from memory.tests.factories import add_delta
from sessions.chapter.stories import (
    begin_next_chapter,
    choose_chapter,
    hide_chapter,
    restore_chapter,
)
from sessions.models import CastMember, Session, State
from sessions.tests.factories import (
    add_turn,
    make_active_chapter,
    make_cast,
)
from storyengine.exchange.forking import fork_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

NAMES = {"1": "Mara", "2": "Tom", "3": "Ilse"}


def play(chapter: Session, words: str, witnesses: list[int] | None = None, reply: str = "") -> None:
    number = chapter.prompt_index + 1
    add_turn(chapter, number, words=words, reply=reply or "I nod.", witnesses=witnesses)
    chapter.prompt_index = number
    chapter.save(update_fields=["prompt_index", "updated_at"])


def follow(before: Session) -> Session:
    chapter = begin_next_chapter(before.story_id)
    return start(chapter)


def start(chapter: Session) -> Session:
    """Open the chapter for play, as the lock does."""
    write_story_so_far(chapter)
    played = Session.objects.filter(pk=chapter.pk)
    played.update(state=State.ACTIVE, tab1_locked=True)
    return played.get()


def ask(chapter: Session, question: str, *readers: int) -> list[Passage]:
    return recall(Reader(chapter, readers or None), question, 50)


def texts(chapter: Session, question: str, *readers: int) -> str:
    return "\n".join(one.text for one in ask(chapter, question, *readers))


@pytest.fixture
def first() -> Session:
    chapter = make_active_chapter(agent_names=NAMES, title="The Lamp")
    play(chapter, "A lantern burns in the chapel.")
    play(chapter, "The admiral hides a ruby.", [1])
    return chapter


def test_a_turn_of_the_chapter_before_is_found_and_named(first: Session) -> None:
    [passage] = ask(follow(first), "lantern", 2)
    assert passage.earlier == first
    assert passage.prompt_index == 1
    assert passage.text.startswith("Chapter “The Lamp”: 1) A lantern burns in the chapel.")


def test_only_who_witnessed_a_turn_finds_it_in_every_later_chapter(first: Session) -> None:
    second = follow(first)
    play(second, "Rain.")
    for chapter in (second, follow(second)):
        assert "ruby" in texts(chapter, "ruby", 1)
        assert "ruby" in texts(chapter, "ruby")
        assert not ask(chapter, "ruby", 2)
        assert not ask(chapter, "ruby", 1, 2)


def test_a_deleted_chapter_is_not_found_until_it_is_back(first: Session) -> None:
    chapter = follow(first)
    hide_chapter(first.pk)
    assert not ask(chapter, "lantern ruby")
    restore_chapter(first.pk)
    assert ask(chapter, "lantern ruby")


def test_the_way_back_goes_by_the_chapter_that_this_one_came_from(first: Session) -> None:
    fork = fork_chapter(first.pk, 1)
    play(fork, "A zeppelin lands.")
    chapter = follow(first)
    assert not ask(chapter, "zeppelin")
    choose_chapter(fork.pk)
    assert not ask(chapter, "zeppelin")
    assert "ruby" in texts(chapter, "ruby", 1)
    # The next chapter that begins comes from the fork, with the same people.
    hide_chapter(chapter.pk)
    other = follow(fork)
    assert "zeppelin" in texts(other, "zeppelin", 2)
    assert not ask(other, "ruby")


def test_a_fork_remembers_the_same(first: Session) -> None:
    second = follow(first)
    play(second, "Rain.")
    fork = fork_chapter(second.pk, 1)
    assert "ruby" in texts(fork, "ruby", 1)
    assert not ask(fork, "ruby", 2)


class TestMemory:
    def test_of_what_happened_is_found(self, first: Session) -> None:
        told = {"major_events": [{"event": "The ferry sank"}]}
        add_delta(first, 1, 2, told, audience=[1])
        chapter = follow(first)
        [found] = ask(chapter, "ferry", 1)
        assert found.text == "Chapter “The Lamp”: Memory, prompts 1-2: The ferry sank"
        assert not ask(chapter, "ferry", 2)

    def test_of_how_things_stood_is_not_because_it_was_handed_on(self, first: Session) -> None:
        broken = {
            "state_changes": [{"key": "ferry", "before": "", "after": "broken", "notes": ""}],
            "canon_locks": ["Ferries cannot fly"],
            "unresolved_threads": [{"thread": "Who broke the ferry?", "stakes": ""}],
        }
        add_delta(first, 1, 2, broken)
        chapter = follow(first)
        mended = {"state_changes": [{"key": "ferry", "before": "broken", "after": "mended"}]}
        add_delta(chapter, 1, 1, mended)
        found = ask(chapter, "ferry")
        assert all(one.earlier is None for one in found)
        assert "mended" in texts(chapter, "ferry")

    def test_that_was_withdrawn_later_is_not_found(self, first: Session) -> None:
        add_delta(first, 1, 2, {"major_events": [{"event": "The ferry sank."}]})
        second = follow(first)
        third = follow(second)
        assert ask(third, "ferry sank")
        write_correction(second.pk, canon="It floats.", replaces="The ferry sank.")
        assert not ask(second, "sank")
        assert not ask(third, "sank")


@pytest.mark.parametrize("seed", range(12))
def test_nothing_unwitnessed_is_ever_found(seed: int) -> None:
    """Stories with people who move, leave and come, each turn with a word of its own: everybody
    finds exactly the words of the turns that they witnessed."""
    draw = random.Random(seed)  # noqa: S311  (no secret)
    chapter = make_active_chapter(agent_names=NAMES)
    people = {1: "a", 2: "b", 3: "c"}
    saw: dict[str, set[str]] = {}
    told: set[str] = set()
    numbered = iter(range(1, 1_000))
    for place in range(4):
        if place:
            chapter = begin_next_chapter(chapter.story_id)
            people = _shuffled_people(draw, chapter, people, newcomer=f"new{place}")
            chapter = start(chapter)
        for _ in range(draw.randint(1, 4)):
            word = f"word{next(numbered)}x"
            witnesses = sorted(draw.sample([1, 2, 3], draw.randint(1, 3)))
            play(chapter, f"Something {word}.", witnesses)
            told.add(word)
            for slot in witnesses:
                saw.setdefault(people[slot], set()).add(word)
        if draw.random() < 0.5:
            fork = fork_chapter(chapter.pk, chapter.prompt_index)
            play(fork, f"Other{next(numbered)}x {uuid.uuid4().hex}.")
        question = " ".join(sorted(told))
        for slot, person in people.items():
            found = texts(chapter, question, slot)
            assert {word for word in told if word in found} == saw.get(person, set())
        assert all(word in texts(chapter, question) for word in told)


def _shuffled_people(
    draw: random.Random, chapter: Session, people: dict[int, str], *, newcomer: str
) -> dict[int, str]:
    """Put the people into other slots, and perhaps somebody new in the place of one of them."""
    origins = {one.slot: one.origin_id for one in chapter.cast}
    order = draw.sample([1, 2, 3], 3)
    now = {slot: people[old] for slot, old in enumerate(order, 1)}
    new = draw.choice([0, 1, 2, 3])
    if new:
        now[new] = newcomer
    members = CastMember.objects.filter(session=chapter)
    make_cast(chapter, name={str(slot): name for slot, name in now.items()})
    for slot, old in enumerate(order, 1):
        members.filter(slot=slot).update(origin=None if slot == new else origins[old])
    return now
