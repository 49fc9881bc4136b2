"""Chapters for tests of files: one that has an entry of every kind, and random chapters from
hypothesis."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from agents.tests.replies import turn_delta, world_lock
from memory.canon.corrections import write_correction
from memory.models import DraftChoice, MemoryBlock, NarrativeDraft, WorkingCopy
from memory.prose.drafts import ToldScene, choose_draft, tell, write_draft
from memory.prose.editing.working_copies import keep_working_copy, save_working_copy
from memory.tests.factories import add_block, add_delta, add_lock
from sessions.chapter.access import tell_readers_apart
from sessions.chapter.chapters import delete_chapter
from sessions.language.text import as_line, scrub_reply, why_no_name
from sessions.models import Attempt, CastMember, Session, State, Tab1Inputs, Turn
from sessions.reply_lengths import ReplyLength
from sessions.tests.factories import (
    add_attempt,
    add_events,
    add_prompts,
    add_reply,
    make_active_chapter,
)
from storyengine.exchange.exporting import export_chapter

TRIED = {"layer": 2, "layer_name": "TASK", "text_before": "Answer.", "text": "Be brief."}
OTHERS = (Attempt.Kind.REROLL, Attempt.Kind.TRIAL, Attempt.Kind.EDIT)
# The fields in which a fork may differ from its origin.
OWN = ("title", "created_at", "last_played_at")
START = datetime(2026, 1, 31, 20, 0, tzinfo=UTC)

# Texts as the engine stores what a person or a model has written.
texts = st.text(
    st.characters() | st.sampled_from("\t\n\r\x0c\x1b\u202e\u0301\u200b\u2028\ufeff🌊"), max_size=40
).map(scrub_reply)
words = texts.filter(str.strip)
lines = texts.map(as_line)
names = lines.filter(lambda line: not why_no_name(line))
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | texts
    # The numbers are small, because PostgreSQL's jsonb returns a large number without a fraction as
    # an integer.
    | st.floats(-1e9, 1e9).map(lambda number: round(number, 3)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
payloads = st.dictionaries(texts, json_values, max_size=4)
# The values of `Attempt.changed_layer`, which says what a trial changed in the request.
changes = st.fixed_dictionaries(
    {"layer": st.integers(1, 20), "layer_name": texts, "text_before": texts, "text": texts}
)


def make_whole_chapter(**fields: Any) -> Session:
    """Return a chapter of ten turns with memory and drafts.

    The last turn has three attempts. Two more prompts have no reply: the attempt at one prompt was
    set aside, and the attempt at the other prompt failed.
    """
    names = {"1": "Mara", "2": "אוריאל"}
    chapter = make_active_chapter(agent_names=names, **({"reply_length": "long"} | fields))
    add_lock(chapter, world_lock())
    add_prompts(chapter, 10, text="Ночь 🌊", reply="I answer.\n\nTwice.")
    add_reply(chapter, 10, "Or so.", ended_before="אוריאל")
    trial = add_reply(chapter, 10, "On trial.", is_chosen=False, was_cut=True)
    trial.kind, trial.changed_layer = Attempt.Kind.TRIAL, TRIED
    trial.source = chapter.turns.get(number=10).chosen
    trial.save()
    add_delta(chapter, 1, 7, turn_delta(1, 7))
    chapter.last_summarized_prompt_index = 7
    chapter.save()
    write_correction(chapter.pk, canon="The lamp burns.", replaces="CANON-0")
    blocks = [str(block.pk) for block in chapter.memory_blocks.order_by("created_at")]
    for text in ("The first telling.", "The second."):
        write_draft(
            chapter.pk,
            job_id=uuid.uuid4(),
            attempt=chapter.turns.get(number=10).chosen,
            definition_text="Close to Mara.",
            target_words=900,
            max_prompt_index=10,
            block_ids=blocks,
            telling=tell((ToldScene(1, 10, 900, 0),), [text]),
        )
    first, second = chapter.narrative_drafts.order_by("created_at")
    save_working_copy(chapter.pk, first.pk, "I answer.\n\nThe first telling.")
    save_working_copy(chapter.pk, keep_working_copy(chapter.pk, first.pk).pk, "And again.")
    save_working_copy(chapter.pk, second.pk, "The second, unfinished")
    choose_draft(chapter.pk, first.pk)
    add_unanswered(chapter, Attempt.Status.SET_ASIDE, words="Words left behind.")
    broken = {"partial_text": "Half a re", "error": "The server is gone."}
    add_unanswered(chapter, Attempt.Status.FAILED, **broken)
    return chapter


def exported(chapter: Session, *without: str) -> dict[str, Any]:
    file = json.loads(export_chapter(chapter.pk).to_json())
    content: dict[str, Any] = file["chapter"]
    return {name: value for name, value in content.items() if name not in without}


def long_chapter_file(prompts: int) -> bytes:
    """Return the file of a chapter in play with `prompts` prompts. The lock is its only memory
    block."""
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    add_prompts(chapter, 1)
    file: dict[str, Any] = json.loads(export_chapter(chapter.pk).to_json())
    [turn] = file["chapter"]["turns"]
    file["chapter"] |= {
        "prompt_index": prompts,
        "turns": [turn | {"number": number} for number in range(1, prompts + 1)],
    }
    delete_chapter(chapter.pk)
    return json.dumps(file).encode()


def add_unanswered(chapter: Session, status: Attempt.Status, **fields: Any) -> Attempt:
    key = str(uuid.uuid4())
    said = {"actor": 1, "words": "What now?"}
    return add_attempt(chapter, submission_key=key, status=status, **(said | fields))


def build_chapter(data: st.DataObject, *, most_audiences: int = 3) -> Session:
    """Return a random chapter that the engine could have made.

    A stretch has deltas for at most `most_audiences` audiences.
    """
    draw = data.draw
    has_begun = draw(st.booleans(), label="has begun")
    agents = draw(st.integers(1, 7), label="agents")
    chapter = Session(
        title=draw(lines.filter(bool), label="title"),
        state=State.ACTIVE if has_begun else State.DRAFT_TAB1,
        tab1_locked=has_begun,
        chunk_size_prompts=draw(st.integers(3, 20)),
        reply_length=draw(st.sampled_from(ReplyLength.values)),
        next_agent_slot=draw(st.integers(1, agents)),
        narrative_agent_definition_text=draw(texts),
        target_words=draw(st.integers(100, 5_000)),
        created_at=START,
        last_played_at=START + timedelta(days=1),
    )
    chapter.save(force_insert=True)
    Tab1Inputs.objects.create(
        session=chapter,
        world_text=draw(texts),
        chapter_text=draw(texts),
    )
    slots = list(range(1, 8))
    _draw_cast(chapter, data, slots[: agents + draw(st.integers(0, 7 - agents))], agents)
    if has_begun:
        _play(chapter, data)
        _tell(chapter, data, most_audiences)
    return chapter


def _draw_cast(chapter: Session, data: st.DataObject, slots: list[int], agents: int) -> None:
    """Store a random cast. The first `agents` characters are selected. Two persons have no slot."""
    draw = data.draw
    for slot in (*slots, None, None):
        CastMember.objects.create(
            session=chapter,
            slot=slot,
            is_selected=slot is None or slot <= agents,
            name=draw(names if slot else names.filter(bool)),
            pronouns=draw(lines),
            public_text=draw(lines),
            identity_text=draw(texts),
        )


def _play(chapter: Session, data: st.DataObject) -> None:
    draw = data.draw
    slots = st.sampled_from(chapter.selected_agent_slots)
    count = draw(st.integers(0, 9), label="prompts")
    at = START
    for number in range(1, count + 1):
        kinds = draw(st.lists(st.sampled_from(OTHERS), max_size=2), label="other attempts")
        made: list[Attempt] = []
        for kind in (Attempt.Kind.PROMPT, *kinds):
            # Two attempts may have the same time. Their ids then decide which one comes first.
            at += timedelta(microseconds=draw(st.integers(0, 10**9)))
            made.append(_draw_attempt(chapter, data, kind=kind, source=made, at=at))
        turn = Turn.objects.create(
            session=chapter, number=number, chosen=draw(st.sampled_from(made))
        )
        for attempt in made:
            attempt.turn = turn
            attempt.save()
            add_events(attempt, number, draw(texts))
    chapter.prompt_index = count
    for status in draw(st.lists(st.just(Attempt.Status.SET_ASIDE), max_size=2)) + draw(
        st.lists(st.sampled_from(Attempt.BROKEN), max_size=1)
    ):
        turns = list(chapter.turns.all())
        is_reroll = bool(turns) and draw(st.booleans())
        add_unanswered(
            chapter,
            status,
            kind=Attempt.Kind.REROLL if is_reroll else Attempt.Kind.PROMPT,
            turn=draw(st.sampled_from(turns)) if is_reroll else None,
            actor=draw(slots),
            words=draw(words),
            partial_text=draw(texts),
            error=draw(texts),
            submitted_at=at,
        )


def _draw_attempt(
    chapter: Session, data: st.DataObject, *, kind: str, source: list[Attempt], at: datetime
) -> Attempt:
    draw = data.draw
    slots = st.sampled_from(chapter.selected_agent_slots)
    has_source = kind in (Attempt.Kind.EDIT, Attempt.Kind.TRIAL)
    return add_attempt(
        chapter,
        submission_key=str(uuid.uuid4()),
        status=Attempt.Status.COMMITTED,
        kind=kind,
        source=draw(st.sampled_from(source)) if has_source else None,
        changed_layer=draw(changes) if kind == Attempt.Kind.TRIAL else None,
        actor=draw(slots),
        words=draw(words),
        witnesses=draw(st.none() | st.lists(slots, unique=True)),
        ended_before=draw(names),
        was_cut=draw(st.booleans()),
        submitted_at=at,
        committed_at=at,
    )


def _tell(chapter: Session, data: st.DataObject, most_audiences: int) -> None:
    draw = data.draw
    # Two memory blocks may have the same time. Their ids then decide which one comes first.
    steps = st.integers(0, 2).map(lambda seconds: timedelta(seconds=seconds))
    at = START
    blocks = [
        add_block(chapter, MemoryBlock.Type.WORLD_CHAPTER_LOCK, 0, 0, draw(payloads), created_at=at)
    ]
    slots = st.sampled_from(chapter.selected_agent_slots)
    audiences = st.lists(slots, unique=True).map(sorted)
    covered = 0
    while covered < chapter.prompt_index and draw(st.booleans(), label="another delta"):
        last = draw(st.integers(covered + 1, chapter.prompt_index))
        at += draw(steps)
        for attempt in chapter.turns.get(number=last).attempts.all():
            is_chosen = hasattr(attempt, "chosen_for")
            if is_chosen or draw(st.booleans(), label="a delta that does not count"):
                told_to = st.lists(audiences, min_size=1, max_size=most_audiences, unique_by=tuple)
                for audience in draw(told_to):
                    tell_readers_apart(chapter, audience)
                    delta = (MemoryBlock.Type.TURN_DELTA, covered + 1, last, draw(payloads))
                    fields: Any = {"created_at": at, "attempt": attempt, "audience": audience}
                    blocks.append(add_block(chapter, *delta, **fields))
        covered = last
        if draw(st.booleans(), label="a correction"):
            correction = (MemoryBlock.Type.CANON_CORRECTION, covered, covered, draw(payloads))
            readers = draw(audiences)
            tell_readers_apart(chapter, readers)
            blocks.append(add_block(chapter, *correction, created_at=at, audience=readers))
    chapter.last_summarized_prompt_index = covered
    if covered == chapter.prompt_index > 0 and draw(st.booleans(), label="has ended"):
        chapter.state = State.ENDED
    chapter.save()
    for _ in range(draw(st.integers(0, 2), label="drafts")):
        used = draw(st.lists(st.sampled_from(blocks), unique_by=lambda block: block.pk))
        last = draw(st.integers(0, chapter.prompt_index))
        before = list(chapter.narrative_drafts.order_by("created_at", "pk"))
        draft = NarrativeDraft.objects.create(
            session=chapter,
            origin=draw(st.sampled_from([None, *before]), label="an origin"),
            attempt=draw(st.sampled_from(list(chapter.turns.get(number=last).attempts.all())))
            if last
            else None,
            narrative_agent_definition_text=draw(texts),
            target_words=draw(st.integers(100, 5_000)),
            source_snapshot={
                "max_prompt_index_used": last,
                "memory_block_ids_used": [str(block.pk) for block in used],
            },
            chapter_text=draw(texts),
            created_at=at,
        )
        if draw(st.booleans(), label="a working copy"):
            WorkingCopy.objects.create(draft=draft, session=chapter, text=draw(texts))
        if draw(st.booleans(), label="is chosen"):
            DraftChoice.objects.update_or_create(session=chapter, defaults={"draft": draft})
