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

from django.db import transaction

_ids: ContextVar[Mapping[str, str]] = ContextVar("log_ids", default=MappingProxyType({}))


def note(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write a line about the event. Fields that are None or empty are left out.

    `event` names a kind of event, and events are counted by this name. So the name must never
    contain values, such as ids.
    """
    _write(logger, logging.INFO, event, fields)


def warn(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write a line about an event that an operator should look at."""
    _write(logger, logging.WARNING, event, fields)


def _write(logger: logging.Logger, level: int, event: str, fields: Mapping[str, object]) -> None:
    said = {name: field for name, field in fields.items() if field is not None and field != ""}
    logger.log(level, event, extra={"fields": said}, stacklevel=3)


def note_after_commit(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write the line once the present transaction is committed. If no transaction is open, write it
    at once."""
    transaction.on_commit(partial(note, logger, event, **fields), robust=True)


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
