"""Checks that compare a chapter in the engine with the expected chapter after each step."""

import uuid
from functools import partial
from itertools import product
from typing import Any

from agents.flows.replies import finishing, turns
from agents.flows.replies.acting import do_act
from agents.flows.replies.writing import ReplyRun
from agents.models import Job
from agents.modes.registry import who_answers
from agents.prompting.layers import TIERS, Tier
from memory.blocks.blocks import counting_deltas
from sessions.models import PERSON, Attempt, Session
from sessions.play.attempts import Writer
from sessions.play.played_world import NewChange, store_changes
from sessions.tests.factories import make_active_chapter
from storyengine.tests.chapter_machine.expected import (
    KEEPERS,
    Change,
    ExpectedChapter,
    Try,
    thoughts_in,
)
from storyengine.tests.chapter_machine.readings import (
    counting_stretches,
    light_now,
    marks_in,
    read_chapter,
    reads,
    sent_for,
    thoughts_stored_in_memory,
    told_for,
    told_to_keeper,
    told_to_narrator,
    waiting_levels,
)
from storyengine.tests.lighthouse.state import LIT, OIL, TIDE_CAME, WIND
from storyengine.tests.lighthouse.tide import TIDE

CHUNK = 3


def check_world(pk: uuid.UUID, expected: ExpectedChapter) -> None:
    assert light_now(pk) == expected.light()


def check_results(pk: uuid.UUID, expected: ExpectedChapter) -> None:
    tides = light_now(pk).tides
    waiting = [one.level for one in expected.waiting(len(expected.turns) + 1)]
    assert waiting_levels(pk) == waiting
    for one in expected.results:
        is_void = not expected.is_chosen(one.asker)
        assert tides.count(one.level) == (0 if is_void or one.level in waiting else 1)


def check_memory(pk: uuid.UUID, expected: ExpectedChapter) -> None:
    """Check that each stretch has exactly one delta that counts for each set of witnesses.

    The delta for the largest set is written first. The deltas are read in the order of the last
    prompts that they tell.
    """
    covered, reading = 0, list(counting_deltas(read_chapter(pk)))
    for stretch, audiences in counting_stretches(pk).items():
        assert stretch.first == covered + 1
        assert stretch.size <= CHUNK
        covered = stretch.last
        steps = expected.turns[stretch.first - 1 : stretch.last]
        sets = {
            tuple(sorted(one.witnesses)): number
            for number, step in enumerate(steps, start=stretch.first)
            for one in step.chosen.events
            if not one.is_thought
        }
        assert audiences == sorted(sets, key=lambda one: (-len(one), one))
        read = [one for one in reading if one.from_prompt_index == stretch.first]
        told_until = [(tuple(one.audience or ()), one.told_until) for one in read]
        assert told_until == sorted(told_until, key=lambda one: one[1] or 0)
        assert dict(told_until) == sets
        winds = [one.kind for step in steps[:-1] for one in step.chosen.run.changes]
        assert WIND not in winds
    assert read_chapter(pk).last_summarized_prompt_index == covered
    assert not thoughts_stored_in_memory(pk)


def check_prompts(pk: uuid.UUID, expected: ExpectedChapter, *, turn: int | None = None) -> None:
    """Check that the prompt of each reader in each tier has what the reader knows, and nothing
    else.

    If `turn` is given, only one combination of a reader and a tier is checked. The next higher
    number checks the next combination.
    """
    chapter = read_chapter(pk)
    covered, last = chapter.last_summarized_prompt_index, len(expected.turns)
    pairs = list(product((*KEEPERS, None), TIERS))
    for slot, tier in pairs if turn is None else [pairs[turn % len(pairs)]]:
        if slot is None:
            told = told_to_narrator(chapter, tier)
            remembered = expected.known_to(None, before=covered + 1)
            assert remembered <= marks_in(told) <= expected.known_to(None)
            assert not thoughts_in([told])
            continue
        told = told_to_keeper(chapter, slot, tier)
        assert marks_in(told) == expected.known_to(slot)
        thoughts = expected.thoughts_of(slot, first=covered + 1)
        assert thoughts <= thoughts_in([told]) <= expected.thoughts_of(slot)
        # The request for another attempt at the latest turn has nothing of this turn.
        told = told_to_keeper(chapter, slot, tier, before=last)
        assert marks_in(told) == expected.known_to(slot, before=last)
        assert thoughts_in([told]) <= expected.thoughts_of(slot, before=last)


def check_request(expected: ExpectedChapter, one: Try, tier: Tier) -> None:
    """Check that the request of a running attempt has what its actor knew before the turn, and the
    changes that the attempt has made."""
    known = expected.known_to(one.actor, before=one.turn, run=one.run)
    told = told_for(one.row, tier)
    sent = marks_in(sent_for(one.row)) - (marks_in(one.words) - known)
    if one.actor is None:
        assert marks_in(told) <= known
        assert sent <= known
        assert not thoughts_in([told])
    else:
        assert marks_in(told) == known
        assert sent == known
        assert thoughts_in([told]) <= expected.thoughts_of(one.actor, before=one.turn)


def play_the_chosen(pk: uuid.UUID, expected: ExpectedChapter) -> uuid.UUID:
    """Play only the chosen attempts in a new chapter, and compare the two chapters."""
    other = make_active_chapter(mode="lighthouse", selected_agent_slots=KEEPERS).pk
    rows: dict[int, Attempt] = {}
    people: dict[int, int] = {}
    levels = {one.level: one for one in expected.results}
    for step in expected.turns:
        one = step.chosen
        for change in one.run.changes:
            if change.kind == TIDE_CAME:
                asker = rows[id(levels[int(change.value)].asker)]
                finished = {"status": Job.Status.DONE, "result": {"level": change.value}}
                assert Job.objects.filter(attempt=asker, kind=TIDE).update(**finished) == 1
        who = one.witnesses and [people.get(number, number) for number in one.witnesses]
        sent: dict[str, Any] = {"actor": one.actor, "words": one.words, "witnesses": who}
        if not one.words:
            sent["answers"] = _answers_without_words
        opened = partial(turns.store_prompt, other, submission_key="", **sent)
        run = ReplyRun(opened)
        run.begin()
        attempt = run.attempt
        for change in one.run.changes:
            if change.kind == TIDE_CAME:
                continue
            payload = payload_of(change)
            assert store_changes(attempt, [NewChange(change.kind, payload)])
            if change.kind == PERSON:
                [new] = attempt.changes.filter(payload__name=payload["name"])
                people[int(change.value)] = new.payload["number"]
        assert finishing.commit_reply(attempt, one.text)
        rows[id(one)] = attempt
        for act in step.acts:
            do_act(other, "refuel", {"litres": act.value})
    last = len(expected.turns)
    assert light_now(other) == light_now(pk)
    assert reads(other, until=last)["record"] == reads(pk, until=last)["record"]
    return other


def _answers_without_words(chapter: Session, actor: int | None) -> Writer:
    return who_answers(chapter, actor)._replace(needs_words=False)


def payload_of(change: Change) -> dict[str, Any]:
    payloads: dict[str, dict[str, Any]] = {
        LIT: {"lamp": change.value},
        OIL: {"litres": change.value},
        WIND: {"force": change.value},
        PERSON: {"name": f"Ann {change.mark}", "public_text": "Came by boat."},
    }
    return payloads[change.kind]
