"""Tests of what a chapter knows of the chapter before it."""

import random
from typing import Any

import pytest

from memory.before.handed_on import what_holds
from memory.before.story_so_far import write_story_so_far
from memory.fold.folding import fold_chapter
from memory.models import MemoryBlock
from memory.tests.factories import add_delta, add_lock
from sessions.chapter.stories import begin_next_chapter
from sessions.models import CastMember, Session
from sessions.tests.factories import make_active_chapter, make_cast

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

EVERYBODY = (1, 2, 3)


@pytest.fixture
def before() -> Session:
    chapter = make_active_chapter(
        prompt_index=30, agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"}
    )
    cast = [{"slot": slot, "name": name} for slot, name in enumerate(("Mara", "Tom", "Ilse"), 1)]
    add_lock(chapter, {"agents": cast, "canon_locks": ["The sea takes one name a year."]})
    return chapter


def follow(before: Session) -> Session:
    chapter = begin_next_chapter(before.story_id)
    write_story_so_far(chapter)
    return chapter


def told(chapter: Session, readers: list[int] | None) -> dict[str, list[str]]:
    """Return what these readers know at the end of the chapter, sorted."""
    holds = what_holds(fold_chapter(chapter, readers=readers), chapter.characters)
    return {name: sorted(map(str, entries)) for name, entries in holds.items()}


def delta(**parts: Any) -> dict[str, Any]:
    return {"memory_type": "turn_delta", **parts}


def state(key: str, value: str) -> dict[str, str]:
    return {"key": key, "before": "", "after": value, "notes": ""}


def thread(text: str) -> dict[str, str]:
    return {"thread": text, "stakes": "", "next_likely_trigger": ""}


def test_nobody_takes_along_what_they_did_not_witness(before: Session) -> None:
    add_delta(before, 1, 7, delta(state_changes=[state("the lamp", "lit")]))
    secret = delta(
        canon_locks=["The bell is cracked."],
        state_changes=[state("the lamp", "broken")],
        items_clues_discovered=[
            {"thing": "a brass ring", "who_found": "Mara", "why_it_matters": "opens the crypt"}
        ],
    )
    add_delta(before, 8, 14, secret, audience=[1, 2])
    chapter = follow(before)
    for reader in (1, 2):
        assert "The bell is cracked." in str(told(chapter, [reader]))
        assert "broken" in str(told(chapter, [reader]))
    ilses = str(told(chapter, [3]))
    assert "lit" in ilses
    for word in ("cracked", "broken", "crypt", "ring"):
        assert word not in ilses
    assert "broken" in str(told(chapter, None))
    assert "'lit'" not in str(told(chapter, None))


def test_memory_goes_to_the_same_person_whatever_the_slot(before: Session) -> None:
    add_delta(before, 1, 7, delta(canon_locks=["Everybody saw the light."]))
    add_delta(before, 8, 14, delta(canon_locks=["Ilse took the ring."]), audience=[3])
    chapter = begin_next_chapter(before.story_id)
    # Ilse moves to slot 1, and somebody new comes to slot 3.
    make_cast(chapter, name={"1": "Ilse", "3": "Somebody new"})
    one, _, three = chapter.cast
    CastMember.objects.filter(pk=one.pk).update(origin=three.origin)
    CastMember.objects.filter(pk=three.pk).update(origin=None)
    chapter = Session.objects.get(pk=chapter.pk)
    write_story_so_far(chapter)
    assert "ring" in str(told(chapter, [1]))
    for reader in (2, 3):
        assert "ring" not in str(told(chapter, [reader]))
        assert "light" in str(told(chapter, [reader]))


def test_what_the_game_master_withdrew_is_not_handed_on(before: Session) -> None:
    add_delta(before, 1, 7, delta(canon_locks=["Tom is dead."]))
    MemoryBlock.objects.create(
        session=before,
        type=MemoryBlock.Type.CANON_CORRECTION,
        from_prompt_index=7,
        to_prompt_index=7,
        audience=list(EVERYBODY),
        json_payload={"replaces": "Tom is dead.", "canon": "Tom is asleep.", "reason": ""},
    )
    assert "dead" not in str(told(follow(before), None))
    assert "asleep" in str(told(Session.objects.get(place=2), [1]))


def test_who_knows_that_something_was_withdrawn_is_not_told_it_with_what_everybody_knew(
    before: Session,
) -> None:
    add_delta(before, 1, 7, delta(canon_locks=["Tom is dead."]))
    MemoryBlock.objects.create(
        session=before,
        type=MemoryBlock.Type.CANON_CORRECTION,
        from_prompt_index=7,
        to_prompt_index=7,
        audience=[1],
        json_payload={"replaces": "Tom is dead.", "canon": "Tom is asleep.", "reason": ""},
    )
    chapter = follow(before)
    for readers, says in (([1], "asleep"), (None, "asleep"), ([2], "dead"), ([1, 2], "dead")):
        canon = [one for one in told(chapter, readers)["canon_locks"] if "Tom" in one]
        assert canon == [f"Tom is {says}."]


@pytest.mark.parametrize("seed", range(12))
def test_everybody_knows_at_the_beginning_what_they_knew_at_the_end(
    before: Session, seed: int
) -> None:
    draw = random.Random(seed)  # noqa: S311  (no secret)
    audiences = [[1], [2], [3], [1, 2], [1, 3], [2, 3], list(EVERYBODY)]
    keys, threads = ["the lamp", "the door", "Tom's mood"], ["who rang?", "where is she?"]
    for number in range(8):
        text = draw.choice(threads)
        payload = delta(
            state_changes=[state(key, f"v{number}") for key in keys if draw.random() < 0.5],
            canon_locks=[f"Fact {number}."] if draw.random() < 0.5 else [],
            unresolved_threads=[thread(draw.choice([text, f"Resolved: {text}"]))],
            relationship_shifts=[
                {"between": ["Mara", "Tom"], "change": f"shift {number}", "evidence": ""}
            ],
            items_clues_discovered=[
                {"thing": f"thing {number % 3}", "who_found": "Ilse", "why_it_matters": f"{number}"}
            ],
        )
        first = 1 + 3 * number
        add_delta(before, first, first + 2, payload, audience=draw.choice(audiences))
    chapter = follow(before)
    for readers in ([1], [2], [3], None):
        assert told(chapter, readers) == told(before, readers)
