"""A chapter that is being imported or forked: there for nobody before its last row is stored.

Each piece is a transaction of its own, so that others can write in between. A chapter whose process
died on the way is removed by whoever looks for what is left behind (agents.running.recovery).
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import connection, models, transaction
from django.utils import timezone

from sessions.access import lock_chapter
from sessions.exceptions import ChapterError, UnknownChapter
from sessions.models import CastMember, Session, Tab1Inputs
from sessions.states import State, try_move

Row = TypeVar("Row", bound=models.Model)

# Renewed with each piece; whoever has not stored one for so long is taken to be dead.
IMPORT_LEASE = timedelta(minutes=2)
# A piece is so much at most, unless it is a single row or group.
PIECE_ROWS, PIECE_CHARACTERS = 200, 1_000_000


class ImportLost(ChapterError):
    """Its lease ran out, so that what was stored of the chapter is removed."""

    title = "The chapter did not come in"

    def __init__(self) -> None:
        super().__init__(
            "Storing the chapter stood still for so long that it was given up. Nothing was kept of "
            "it; try again."
        )


@contextmanager
def importing(chapter: Session, tab1: Tab1Inputs, cast: Sequence[CastMember]) -> Iterator[None]:
    """Store the rest of the chapter in the block, with `store_rows`; it is there afterwards, in the
    state that it has now. Where the block fails, nothing is.
    """
    state, chapter.state = State(chapter.state), State.IMPORTING
    with transaction.atomic():
        # Whoever deletes the origin of a fork waits until its fork names it, or comes first.
        if chapter.origin_id and not lock_chapter(chapter.origin_id):
            raise UnknownChapter("The chapter was reset or deleted meanwhile. Nothing was stored.")
        chapter.save(force_insert=True)
        tab1.save(force_insert=True)
        CastMember.objects.bulk_create(cast)
    try:
        yield
        if not try_move(_with_lease(chapter), state, updated_at=timezone.now()):
            raise ImportLost
    except BaseException:
        # What cannot be removed now is removed when its lease has run out.
        with suppress(DatabaseError):
            _remove(_being_imported().filter(pk=chapter.pk))
        raise


def store_rows(chapter: Session, rows: Iterable[models.Model]) -> None:
    """Store rows piece by piece. Raises ImportLost."""
    store_groups(chapter, ([row] for row in rows))


def store_groups(chapter: Session, groups: Iterable[Sequence[models.Model]]) -> None:
    """Store rows piece by piece, where those of a group name each other. Raises ImportLost."""
    for piece in _pieces(groups):
        begun = time.monotonic()
        with transaction.atomic():
            if not _with_lease(chapter).update(updated_at=timezone.now()):
                raise ImportLost
            # The database looks at what they name once all of them are stored.
            for model, rows in _by_model(piece).items():
                model._default_manager.bulk_create(rows)
        let_others_write(time.monotonic() - begun)


def remove_left_behind() -> int:
    """Remove what dead processes have stored of chapters; returns of how many."""
    dead = _being_imported().filter(updated_at__lt=timezone.now() - IMPORT_LEASE)
    left = list(dead.values_list("pk", flat=True))
    for pk in left:
        _remove(dead.filter(pk=pk))
    return len(left)


def let_others_write(seconds: float) -> None:
    """SQLite has one writer at a time, and whoever waits only looks now and then."""
    if connection.vendor == "sqlite":
        time.sleep(seconds)


def _being_imported() -> "models.QuerySet[Session]":
    return Session.everything.filter(state=State.IMPORTING)


def _with_lease(chapter: Session) -> "models.QuerySet[Session]":
    """Its row while its lease runs: nothing more is stored of it afterwards."""
    return _being_imported().filter(pk=chapter.pk, updated_at__gte=timezone.now() - IMPORT_LEASE)


def _pieces(groups: Iterable[Sequence[Row]]) -> Iterator[list[Row]]:
    piece: list[Row] = []
    size = 0
    for group in groups:
        characters = sum(map(_characters_of, group))
        is_full = len(piece) + len(group) > PIECE_ROWS or size + characters > PIECE_CHARACTERS
        if piece and is_full:
            yield piece
            piece, size = [], 0
        piece += group
        size += characters
    if piece:
        yield piece


def _by_model(rows: Iterable[models.Model]) -> dict[type[models.Model], list[models.Model]]:
    found: dict[type[models.Model], list[models.Model]] = {}
    for row in rows:
        found.setdefault(type(row), []).append(row)
    return found


def _characters_of(row: models.Model) -> int:
    return sum(len(str(value)) for value in vars(row).values() if isinstance(value, str | dict))


def _remove(chapter: "models.QuerySet[Session]") -> None:
    """The chapter (a queryset of one) with all its rows, piece by piece, for as long as it is one.

    Somebody whose lease was taken to have run out may have renewed it.
    """
    for relation in Session._meta.related_objects:
        # A chapter that is not there yet has no forks, and they would outlive it.
        if relation.related_model is Session:
            continue
        rows = relation.related_model._base_manager.filter(
            **{f"{relation.field.name}__in": chapter}
        )
        while _remove_piece(chapter, rows):
            pass
    _remove_piece(chapter, chapter)


def _remove_piece(chapter: "models.QuerySet[Session]", rows: "models.QuerySet[Any]") -> int:
    """Returns how many rows there were."""
    begun = time.monotonic()
    with transaction.atomic():
        if not list(chapter.select_for_update().values_list("pk")):
            return 0
        keys = list(rows.order_by().values_list("pk", flat=True)[:PIECE_ROWS])
        rows.filter(pk__in=keys).delete()
    let_others_write(time.monotonic() - begun)
    return len(keys)
