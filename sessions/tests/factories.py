"""Functions that make the chapters, turns and attempts from which tests start."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from sessions.chapter.access import tell_readers_apart
from sessions.models import (
    THOUGHT,
    Attempt,
    CastMember,
    Change,
    Event,
    Session,
    State,
    Tab1Inputs,
    Turn,
)
from sessions.play import acts
from sessions.play.attempts import Writer, open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent, store_events
from sessions.play.played_world import NewChange

IDENTITIES = {"1": "A ferrywoman.", "2": "A priest.", "3": "A child."}


def make_chapter(
    *,
    selected_agent_slots: Sequence[int] = (1, 2, 3),
    agent_names: Mapping[str, str] | None = None,
    agent_identity_text_by_slot: Mapping[str, str] = IDENTITIES,
    **fields: Any,
) -> Session:
    """Make a chapter with a filled Tab 1."""
    chapter = Session(**{"title": "The Dark Lamp", **fields})
    chapter.save(force_insert=True)
    Tab1Inputs.objects.create(
        session=chapter,
        world_text="A harbour town at the edge of the ice.",
        chapter_text="Night. The lighthouse is dark.",
    )
    texts = {"name": agent_names or {}, "identity_text": agent_identity_text_by_slot}
    make_cast(chapter, selected_agent_slots, **texts)
    return chapter


def make_cast(
    chapter: Session, slots: Sequence[int] | None = None, **texts: Mapping[str, str]
) -> None:
    """Select the characters in `slots`, and set fields of characters. `texts` maps the name of a
    field to new texts by slot.

    Without `slots`, the selection stays unchanged. Fields without a new text stay unchanged too.
    """
    members = {one.slot: one for one in chapter.cast if one.slot}
    numbers = {*(slots or ()), *(int(slot) for by_slot in texts.values() for slot in by_slot)}
    for slot in sorted(numbers - members.keys()):
        members[slot] = CastMember(session=chapter, slot=slot, is_selected=False)
    for slot, member in members.items():
        if slots is not None:
            member.is_selected = slot in slots
        for field, by_slot in texts.items():
            setattr(member, field, by_slot.get(str(slot), getattr(member, field)))
        member.save()
    chapter.forget_cast()


def make_active_chapter(**fields: Any) -> Session:
    return make_chapter(**{"state": State.ACTIVE, "tab1_locked": True, **fields})


def act(session_id: uuid.UUID, changes: Sequence[NewChange]) -> list[Change]:
    """Store these changes as an act of the user. The changes do not depend on the world."""
    return acts.act(session_id, lambda chapter: changes)


def add_prompts(chapter: Session, count: int, *, text: str = "beat", reply: str = "reply") -> None:
    """Add `count` turns, each with a prompt and one reply, as if they had been played."""
    first = chapter.prompt_index + 1
    for number in range(first, first + count):
        slot = (number - 1) % len(chapter.selected_agent_slots) + 1
        add_turn(chapter, number, words=f"{text} {number}", reply=f"{reply} {number}", actor=slot)
    chapter.prompt_index += count
    chapter.save(update_fields=["prompt_index", "updated_at"])


def add_thoughts(chapter: Session, count: int, *, actor: int = 1) -> None:
    """Commit `count` further turns without a prompt. The only event of each turn is a thought."""
    for _ in range(count):
        attempt = open_prompt(
            chapter.pk,
            actor=actor,
            words="",
            submission_key="",
            answers=lambda _chapter, actor: Writer(actor, needs_words=False),
        ).attempt
        assert commit_attempt(attempt, [NewEvent("He lies.", actor, kind=THOUGHT)])
    chapter.refresh_from_db()


def add_turn(
    chapter: Session, number: int, *, words: str, reply: str, actor: int = 1, **fields: Any
) -> Turn:
    """Add a turn with one committed attempt. Leave the chapter's own row unchanged."""
    attempt = add_attempt(
        chapter,
        submission_key=str(uuid.uuid4()),
        status=Attempt.Status.COMMITTED,
        actor=actor,
        words=words,
        committed_at=timezone.now(),
        **fields,
    )
    turn = Turn.objects.create(session=chapter, number=number, chosen=attempt)
    Attempt.objects.filter(pk=attempt.pk).update(turn=turn)
    attempt.turn = turn
    add_events(attempt, number, reply)
    return turn


def add_reply(
    chapter: Session, number: int, reply: str, *, is_chosen: bool = True, **fields: Any
) -> Attempt:
    """Add another committed attempt at a turn. Choose the attempt unless `is_chosen` is false."""
    turn = chapter.turns.select_related("chosen").get(number=number)
    attempt = add_attempt(
        chapter,
        submission_key=str(uuid.uuid4()),
        kind=Attempt.Kind.REROLL,
        status=Attempt.Status.COMMITTED,
        turn=turn,
        actor=turn.chosen.actor,
        words=turn.chosen.words,
        committed_at=timezone.now(),
        **fields,
    )
    add_events(attempt, number, reply)
    if is_chosen:
        turn.chosen = attempt
        turn.save()
    return attempt


def add_events(attempt: Attempt, number: int, reply: str) -> None:
    chapter = attempt.session
    everybody = chapter.everybodys_numbers
    witnesses = everybody if attempt.witnesses is None else attempt.witnesses
    tell_readers_apart(chapter, witnesses)
    about = {
        "session": chapter,
        "attempt": attempt,
        "prompt_index": number,
        "witnesses": witnesses,
    }
    store_events(
        [
            Event(**about, position=0, role=Event.Role.USER, text=attempt.words),
            Event(**about, position=1, role=Event.Role.AGENT, agent_slot=attempt.actor, text=reply),
        ]
    )


def add_attempt(chapter: Session, **fields: Any) -> Attempt:
    """Add an attempt, which a live process is writing unless `fields` say otherwise.

    Leave the chapter's own row unchanged.
    """
    return Attempt.objects.create(
        session=chapter,
        **{
            "submission_key": "key-1",
            "actor": 2,
            "words": "The ice cracks.",
            "lease_until": timezone.now() + timedelta(minutes=1),
            **fields,
        },
    )
