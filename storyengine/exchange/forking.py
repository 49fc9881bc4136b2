"""Forks a chapter: makes a new chapter that begins as the origin was after one of its turns.

The origin is exported up to that turn and imported under new ids, in play. No model is called and
no job is queued. Memory that is missing is written with the fork's next prompt, as after an import.
"""

import uuid

from django.db import IntegrityError
from django.utils import timezone

from agents.calling.spending import used_by_model
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import title_of_copy
from sessions.chapter.storing_imports import remove_left_behind
from sessions.exceptions import ChapterError, KeyReused, WrongState
from sessions.models import Session, State
from sessions.play.attempts import KEY_REUSED, clean_key
from storyengine.exchange.chapter_file import Chapter
from storyengine.exchange.exporting import export_until
from storyengine.exchange.importing import store_chapter
from storyengine.settings.import_limits import OF_THE_OPERATOR, count_entries


class ForkUnderWay(WrongState):
    title = "The fork is being made"
    retry_seconds = 2

    def __init__(self) -> None:
        super().__init__(
            "This fork is being stored already. It is on the home page as soon as it is "
            "whole; send the same again to be led to it."
        )


class TooLargeToFork(ChapterError):
    title = "Too large to fork"


def fork_chapter(session_id: uuid.UUID, number: int, *, submission_key: str = "") -> Session:
    """Fork the chapter after turn `number`. The chapter may be in any state in which it has turns.

    A second request with the same key returns the same fork, or raises ForkUnderWay while the fork
    is being stored. Raises the errors of `export_until`, KeyReused if the key was used for another
    turn, TooLargeToFork and ImportLost.
    """
    key = clean_key(submission_key)
    origin = get_chapter(session_id)
    if fork := _find_fork(origin, number, key):
        return fork
    content = export_until(origin.pk, number)
    _check_size(content)
    now = timezone.now()
    try:
        return store_chapter(
            content,
            title=title_of_copy(origin.title),
            story=origin.story,
            place=origin.place,
            is_chosen=False,
            created_at=now,
            last_played_at=now,
            origin=origin,
            origin_title=origin.title,
            forked_at_prompt=number,
            fork_key=key,
            inherited_usage=used_by_model(origin.pk),
            follows_id=origin.follows_id,
            followed_state=origin.followed_state,
            model_settings=origin.model_settings,
            origins=[one.origin_id for one in origin.cast],
        )
    except IntegrityError:
        # Another request with the same key came at the same time, and has stored the fork.
        if fork := _find_fork(origin, number, key):
            return fork
        raise


def _find_fork(origin: Session, number: int, key: str) -> Session | None:
    """Return the fork that was made under this key, or None.

    Raises ForkUnderWay and KeyReused.
    """
    made = Session.everything.filter(origin=origin, fork_key=key)
    fork = made.first()
    if fork is not None and fork.state == State.IMPORTING:
        # The process that was storing the fork may have died. Then the unfinished fork is removed
        # here.
        remove_left_behind()
        fork = made.first()
    if fork is None:
        return None
    if fork.forked_at_prompt != number:
        raise KeyReused(KEY_REUSED)
    if fork.state == State.IMPORTING:
        raise ForkUnderWay
    return get_chapter(fork.pk)


def _check_size(fork: Chapter) -> None:
    """Raise TooLargeToFork if the fork exceeds even the limits on files that the server's operator
    imports."""
    entries = (*fork.turns, *fork.results, *fork.memory_blocks)
    size = sum(len(entry.model_dump_json().encode()) for entry in entries)
    for name, count in (count_entries(fork) | {"file_bytes": size}).items():
        most = getattr(OF_THE_OPERATOR, name)
        if count > most:
            kind = "bytes" if name == "file_bytes" else name.replace("_", " ")
            raise TooLargeToFork(
                f"Up to this prompt the chapter has {count:,} {kind}, and a fork can have "
                f"{most:,}. Nothing was stored; fork it at an earlier prompt."
            )
