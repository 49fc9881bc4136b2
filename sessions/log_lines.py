"""Writes lines of the log. Each line is about one event, and has the ids of the rows and of the
request that the event belongs to.

A line has only names, ids and numbers. It never has text of a story. It never has the message of an
error either, because the message may repeat such text.
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
    """Write the event's line, without the fields that are None or empty.

    `event` is a fixed text for each kind of event, because events are counted by it.
    """
    _write(logger, logging.INFO, event, fields)


def warn(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write the line of an event that an operator should look at."""
    _write(logger, logging.WARNING, event, fields)


def _write(logger: logging.Logger, level: int, event: str, fields: Mapping[str, object]) -> None:
    said = {name: field for name, field in fields.items() if field is not None and field != ""}
    logger.log(level, event, extra={"fields": said}, stacklevel=3)


def note_after_commit(logger: logging.Logger, event: str, **fields: object) -> None:
    """Write the line after the present transaction is committed, or at once if no transaction is
    open."""
    transaction.on_commit(partial(note, logger, event, **fields), robust=True)


@contextmanager
def working_for(**ids: object) -> Iterator[None]:
    """Add these ids to every line that is written in the block. Ids that were added before stay."""
    token = _ids.set(_with(ids))
    try:
        yield
    finally:
        _ids.reset(token)


def go_on_working_for(**ids: object) -> None:
    """Add these ids to every line that the present task writes from now on."""
    _ids.set(_with(ids))


def current_ids() -> Mapping[str, str]:
    return _ids.get()


def _with(ids: Mapping[str, object]) -> Mapping[str, str]:
    return {**_ids.get(), **{name: str(one) for name, one in ids.items() if one}}
