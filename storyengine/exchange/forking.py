"""Forks a chapter: makes another one that begins as the origin was after one of its turns.

A fork exports the origin up to that turn and imports it under new ids, in play. It calls no model
and queues no job. Memory that is missing is written with its next prompt, as after an import.
"""

import uuid
from typing import Any

from django.db import IntegrityError
from django.db.models import F, Q, QuerySet, Sum, TextField
from django.db.models.functions import Cast, Length
from django.utils import timezone

from agents.calling.spending import used_by_model
from sessions.access import get_chapter
from sessions.attempts import KEY_REUSED, clean_key
from sessions.chapters import title_of_copy
from sessions.exceptions import ChapterError, KeyReused, WrongState
from sessions.importing import remove_left_behind
from sessions.models import Session
from sessions.record import committed_attempts
from sessions.states import State
from storyengine.exchange.exporting import export_until, finished_results_of
from storyengine.exchange.importing import store_chapter
from storyengine.exchange.limits import OF_THE_OPERATOR


class ForkUnderWay(WrongState):
    title = "The fork is being made"
    retry_seconds = 2

    def __init__(self) -> None:
        super().__init__(
            "This fork is being stored already. It is in the list of chapters as soon as it is "
            "whole; send the same again to be led to it."
        )


class TooLargeToFork(ChapterError):
    title = "Too large to fork"


def fork_chapter(session_id: uuid.UUID, number: int, *, submission_key: str = "") -> Session:
    """Fork the chapter after its turn `number`, whatever its state is.

    A second request with the same key returns the same fork, or raises ForkUnderWay while it is
    being stored. Also raises UnknownChapter, UnknownTurn, WrongState before the chapter has begun,
    KeyReused if the key was used for another number, TooLargeToFork and ImportLost.
    """
    key = clean_key(submission_key)
    origin = get_chapter(session_id)
    if fork := _find_fork(origin, number, key):
        return fork
    _check_size(origin, number)
    now = timezone.now()
    try:
        return store_chapter(
            export_until(origin.pk, number),
            title=title_of_copy(origin.title),
            created_at=now,
            last_played_at=now,
            origin=origin,
            origin_title=origin.title,
            forked_at_prompt=number,
            fork_key=key,
            inherited_usage=used_by_model(origin.pk),
        )
    except IntegrityError:
        # The same form was sent twice at once, and the other request came first.
        if fork := _find_fork(origin, number, key):
            return fork
        raise


def _find_fork(origin: Session, number: int, key: str) -> Session | None:
    """Return the fork that was made under this key."""
    made = Session.everything.filter(origin=origin, fork_key=key)
    fork = made.first()
    if fork is not None and fork.state == State.IMPORTING:
        # The process that was storing the fork may have died.
        remove_left_behind()
        fork = made.first()
    if fork is None:
        return None
    if fork.forked_at_prompt != number:
        raise KeyReused(KEY_REUSED)
    if fork.state == State.IMPORTING:
        raise ForkUnderWay
    return get_chapter(fork.pk)


def _check_size(origin: Session, number: int) -> None:
    """Raise TooLargeToFork if an operator could not import the fork; the query reads no texts."""
    attempts = committed_attempts(origin.pk).filter(turn__number__lte=number)
    events = origin.events.filter(prompt_index__lte=number)
    blocks = origin.memory_blocks.filter(to_prompt_index__lte=number)
    is_told = Q(run_id=None) | Q(run_id=F("attempt__run_id"))
    changes = origin.changes.filter(is_told, attempt__in=attempts.order_by())
    results = finished_results_of(origin).filter(attempt__in=attempts.order_by())
    counts = {
        "turns": origin.turns.filter(number__lte=number).count(),
        "attempts": attempts.count(),
        "events": events.count(),
        "changes": changes.count(),
        "results": results.count(),
        "memory_blocks": blocks.count(),
    }
    texts: tuple[tuple[QuerySet[Any], str], ...] = (
        (attempts, "words"),
        (events, "text"),
        (changes, "payload"),
        (results, "result"),
        (blocks, "json_payload"),
    )
    counts["file_bytes"] = sum(
        rows.aggregate(characters=Sum(Length(Cast(field, TextField()))))["characters"] or 0
        for rows, field in texts
    )
    for name, count in counts.items():
        most = getattr(OF_THE_OPERATOR, name)
        if count > most:
            kind = "characters" if name == "file_bytes" else name.replace("_", " ")
            raise TooLargeToFork(
                f"Up to this prompt the chapter has {count:,} {kind}, and a fork can have "
                f"{most:,}. Nothing was stored; fork it at an earlier prompt."
            )
