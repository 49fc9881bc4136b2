"""Writes lines of the log. Each line is about one event. It has the ids of the rows that the event
is about, and the id of the request that caused the event.

A line has only names, ids and numbers. It never has text of a story, and never the message of an
error, because such a message may quote a story.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from django.db import transaction
from prometheus_client import Counter

from sessions import counts

if TYPE_CHECKING:
    from sessions.models import Attempt

_ids: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default=MappingProxyType({}))


def note(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write a line about the event. Fields that are None or empty are left out.

    `event` names a kind of event, so it must never contain values, such as ids.
    """
    _write(logger, logging.INFO, event, fields)


def warn(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write a line about an event that an operator should look at."""
    _write(logger, logging.WARNING, event, fields)


def _write(logger: logging.Logger, level: int, event: str, fields: Mapping[str, object]) -> None:
    said = {name: field for name, field in fields.items() if field is not None and field != ""}
    logger.log(level, event, extra={"fields": said}, stacklevel=3)


def note_after_commit(
    logger: logging.Logger, event: str, *counted: Counter, **fields: object
) -> None:
    """Write the line and add 1 to each count once the present transaction is committed. If no
    transaction is open, do so at once."""
    for count in counted:
        transaction.on_commit(count.inc, robust=True)
    transaction.on_commit(partial(note, logger, event, **fields), robust=True)


def note_attempt(
    logger: logging.Logger, attempt: "Attempt", outcome: str, kind: str = "", **fields: object
) -> None:
    """Write after the commit what became of an attempt at a reply, and count it. `kind` names the
    failure of an attempt that failed."""
    counted = [] if outcome == "chosen" else [counts.turns.labels(outcome)]
    if kind:
        counted.append(counts.failures.labels("turn", kind))
    ids = {"session_id": attempt.session_id, "attempt_id": attempt.pk}
    about = {"slot": attempt.actor, "attempt_kind": attempt.kind, "kind": kind}
    note_after_commit(logger, f"attempt {outcome}", *counted, **about, **fields, **ids)


@contextmanager
def working_for(**ids: object) -> Iterator[None]:
    """Add these ids to every log line that is written in the `with` block. The ids of an outer
    `with` block are added too."""
    token = _ids.set(_with(ids))
    try:
        yield
    finally:
        _ids.reset(token)


def go_on_working_for(**ids: object) -> None:
    """Add these ids to every log line that the present task writes from now on."""
    _ids.set(_with(ids))


def current_ids() -> Mapping[str, str]:
    return _ids.get()


def _with(ids: Mapping[str, object]) -> Mapping[str, str]:
    return {**_ids.get(), **{name: str(one) for name, one in ids.items() if one}}
