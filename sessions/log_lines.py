"""One line of the log for each event: what happened, to which rows, at whose request.

Names, ids and numbers only: never a text of a story, and never an error's own words, which may
repeat one.
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
    """Write the event's line. What counts events knows them by `event`, so it has no variable part.

    A field that is None or empty is left out.
    """
    _write(logger, logging.INFO, event, fields)


def warn(logger: logging.Logger, event: str, **fields: object) -> None:
    """The same of what somebody should look at."""
    _write(logger, logging.WARNING, event, fields)


def _write(logger: logging.Logger, level: int, event: str, fields: Mapping[str, object]) -> None:
    said = {name: field for name, field in fields.items() if field is not None and field != ""}
    logger.log(level, event, extra={"fields": said}, stacklevel=3)


def note_after_commit(logger: logging.Logger, event: str, **fields: object) -> None:
    """The same once the transaction that makes it true is committed; at once without one."""
    transaction.on_commit(partial(note, logger, event, **fields), robust=True)


@contextmanager
def working_for(**ids: object) -> Iterator[None]:
    """Every line that is written inside carries these ids beside those that are set already."""
    token = _ids.set(_with(ids))
    try:
        yield
    finally:
        _ids.reset(token)


def go_on_working_for(**ids: object) -> None:
    """The same for the rest of the present task, which has a context of its own."""
    _ids.set(_with(ids))


def current_ids() -> Mapping[str, str]:
    return _ids.get()


def _with(ids: Mapping[str, object]) -> Mapping[str, str]:
    return {**_ids.get(), **{name: str(one) for name, one in ids.items() if one}}
