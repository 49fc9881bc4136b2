"""Rulings of the Game Master about canon. Each ruling is stored as a memory block.

A ruling covers no prompts and does not move the summary pointer. Its readers are fixed when it is
made. They are the members whom the Game Master names. If none are named, they are the members who
knew the fact that the ruling settles, or everybody if nobody knew this fact.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from django.db import transaction

from memory.blocks.same_names import key_of, mentions
from memory.canon.ruling_payloads import Answer, answer_payload, correction_payload
from memory.fold.folding import fold_chapter
from memory.fold.records import Fold
from memory.models import MemoryBlock
from memory.telling.now_view import NowSection, now_view
from sessions.chapter.access import get_chapter_to_change, tell_readers_apart
from sessions.exceptions import InvalidInput, WrongState
from sessions.language.text import clean_text
from sessions.limits import CANON_CHAR_LIMIT
from sessions.models import (
    PLAYABLE,
    Session,
    State,
)
from sessions.play.played_world import everybody_at, take_part_once
from sessions.roster import Character


@transaction.atomic
def write_correction(
    session_id: uuid.UUID,
    *,
    canon: str = "",
    replaces: str = "",
    reason: str = "",
    readers: Sequence[int] | None = None,
) -> MemoryBlock:
    """Store a ruling with the fact that is true now (`canon`), the fact of memory that is no longer
    true (`replaces`), or both.

    `readers` are numbers of members, or None for the members who knew the old fact. Raises
    WrongState, InvalidInput and TooLong. If the latest ruling is the same, no block is added.
    """
    chapter = _chapter_to_correct(session_id)
    payload = correction_payload(
        replaces=_clean(replaces, "What is no longer true"),
        canon=_clean(canon, "What is true now"),
        reason=_clean(reason, "The reason"),
    )
    if not (payload["canon"] or payload["replaces"]):
        raise InvalidInput(
            "A correction says what is true now, or which fact no longer is. Nothing was changed."
        )
    if latest := _same_as_latest(chapter, payload, readers):
        return latest
    settled = key_of(payload["replaces"])
    return _write(
        chapter, payload, readers, knew=lambda known: _holds(known, chapter.characters, settled)
    )


@transaction.atomic
def write_answer(
    session_id: uuid.UUID,
    question: str,
    answer: Answer,
    *,
    old: str = "",
    new: str = "",
    reason: str = "",
    readers: Sequence[int] | None = None,
) -> MemoryBlock:
    """Store a ruling that settles an open question of memory.

    `old` and `new` are the two facts of the question. `readers` are numbers of members, or None for
    the members who knew the question. With `Answer.TAKE_NEW`, canon must change: `new` must be
    given, and `old` must be "" or a fact in memory's words.

    Raises InvalidInput and TooLong. Raises WrongState if canon cannot be changed now, or if no open
    question has the text `question`. If the latest ruling is the same, no block is added.
    """
    chapter = _chapter_to_correct(session_id)
    folded = fold_chapter(chapter)
    asked = folded.questions.get(key_of(question))
    if asked is None:
        raise WrongState("Memory holds no such question. Nothing was changed.")
    payload = answer_payload(
        asked.text,
        answer,
        old=_clean(old, "The old canon"),
        new=_clean(new, "The new"),
        reason=_clean(reason, "The reason"),
    )
    if latest := _same_as_latest(chapter, payload, readers):
        return latest
    if asked.is_settled:
        raise WrongState(
            "This question is settled already, so nothing was changed. "
            "A correction of canon can still change what is true."
        )
    if answer is Answer.TAKE_NEW:
        sections = now_view(folded, chapter.characters)
        _check_that_it_changes(payload["replaces"], payload["canon"], sections)
    return _write(chapter, payload, readers, knew=lambda known: key_of(question) in known.questions)


def why_not_now(chapter: Session) -> str:
    """Return the reason why canon cannot be changed in the chapter's state, or "" if it can."""
    if chapter.state in (State.DRAFT_TAB1, State.LOCKING):
        return (
            "There is no canon to correct before the chapter has begun: "
            "Tab 1 still says what is true."
        )
    if chapter.is_ending:
        return (
            "The chapter is ending and the last memory is being written. "
            "Canon can be corrected as soon as it is there."
        )
    if chapter.state == State.NARRATING:
        return (
            "The chapter is being written from memory as it stands. "
            "Wait for it or cancel it, then correct the canon."
        )
    if chapter.state not in (*PLAYABLE, State.ENDED):
        return f"Canon cannot be corrected now ({chapter.get_state_display()})."
    return ""


def _chapter_to_correct(session_id: uuid.UUID) -> Session:
    chapter = get_chapter_to_change(session_id)
    if refusal := why_not_now(chapter):
        raise WrongState(refusal)
    return chapter


def _check_that_it_changes(old: str, new: str, sections: Iterable[NowSection]) -> None:
    """Raise InvalidInput if the GM takes the new fact, but this would not change canon."""
    held = {
        key_of(item.replaces): section.key
        for section in reversed(list(sections))
        for item in section.items
        if item.replaces
    }
    if not new:
        raise InvalidInput(
            "To take the new, say in words what is true now. Nothing was changed, "
            "and the question is still open."
        )
    if old and key_of(old) == key_of(new):
        raise InvalidInput(
            "The old and the new say the same, so canon would stay as it is. Nothing was changed, "
            "and the question is still open."
        )
    if old and key_of(old) not in held:
        raise InvalidInput(
            "Memory does not hold the old fact in these words, so it could not be withdrawn. "
            "Choose it as memory words it, or none. Nothing was changed."
        )
    if not old and held.get(key_of(new)) == "canon":
        raise InvalidInput(
            "This is canon already. Choose the fact that no longer is, or let the question be. "
            "Nothing was changed."
        )


def _holds(known: Fold, cast: Sequence[Character], settled: str) -> bool:
    """Return whether the fold has a fact whose key contains, or is contained in, the key
    `settled`."""
    items = (item for section in now_view(known, cast) for item in section.items)
    held = (key_of(item.replaces) for item in items if item.replaces)
    return bool(settled) and any(mentions(key, settled) or mentions(settled, key) for key in held)


def _write(
    chapter: Session,
    payload: dict[str, Any],
    readers: Sequence[int] | None,
    *,
    knew: Callable[[Fold], bool],
) -> MemoryBlock:
    cast = [one.number for one in everybody_at(chapter)]
    if readers is None:
        knowing = cast
        if chapter.differs_by_reader:
            knowing = [slot for slot in cast if knew(fold_chapter(chapter, readers=[slot]))]
        audience = knowing or cast
    elif take_part_once(chapter, readers):
        audience = sorted(readers)
    else:
        raise InvalidInput(
            "The readers must be agents of this chapter, each once. Nothing was changed."
        )
    tell_readers_apart(chapter, audience)
    chapter.save(update_fields=["updated_at"])
    return MemoryBlock.objects.create(
        session=chapter,
        type=MemoryBlock.Type.CANON_CORRECTION,
        from_prompt_index=chapter.prompt_index,
        to_prompt_index=chapter.prompt_index,
        audience=audience,
        json_payload=payload,
    )


def _same_as_latest(
    chapter: Session, payload: dict[str, Any], readers: Sequence[int] | None
) -> MemoryBlock | None:
    """Return the latest ruling if it equals the new one, as happens when a form is sent twice.
    Otherwise return None."""
    rulings = chapter.memory_blocks.filter(type=MemoryBlock.Type.CANON_CORRECTION)
    latest = rulings.order_by("created_at").last()
    if latest is None or latest.json_payload != payload:
        return None
    return latest if readers is None or sorted(readers) == latest.audience else None


def _clean(text: str, label: str) -> str:
    return clean_text(text, limit=CANON_CHAR_LIMIT, label=label).strip()
