"""Stores a chapter that is imported or forked. The chapter is invisible until its last row is
stored.

The rows are stored in pieces, each in a transaction of its own, so that other processes can write
between two pieces. If the process dies, agents.running.recovery removes the unfinished chapter.
"""

import gc
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any, TypeVar

from django.db import Error as DatabaseError
from django.db import connection, models, transaction
from django.db.models.functions import Now
from django.utils import timezone

from sessions.chapter.access import lock_chapter, lock_story
from sessions.chapter.states import try_move
from sessions.exceptions import ChapterError, UnknownChapter
from sessions.leases import from_now
from sessions.models import CastMember, Session, State, Tab1Inputs

Row = TypeVar("Row", bound=models.Model)

# A process that has stored no further piece for this time counts as dead. The database's clock sets
# `Session.updated_at` with each piece.
IMPORT_LEASE = timedelta(minutes=2)
# The limits of a piece, in rows and in characters. Only a single row or group may be larger.
PIECE_ROWS, PIECE_CHARACTERS = 200, 1_000_000
# On SQLite, an import pauses once its pieces have taken the first number of seconds. The second
# number is the length of the pause. It is longer than the time after which a waiting process tries
# again, which is 0.1 seconds at most.
_WORK_SECONDS, _PAUSE_SECONDS = 0.1, 0.15


class ImportLost(ChapterError):
    """The refusal of an import whose lease ran out. The part that was stored is removed."""

    title = "The chapter did not come in"

    def __init__(self) -> None:
        super().__init__(
            "Storing the chapter stood still for so long that it was given up. Nothing was kept of "
            "it; try again."
        )


@contextmanager
def importing(chapter: Session, tab1: Tab1Inputs, cast: Sequence[CastMember]) -> Iterator[None]:
    """Store a new chapter. In the `with` block, the caller stores the other rows with `store_rows`
    and `store_groups`.

    The chapter is invisible until the block ends. Then it becomes visible, in the state that
    `chapter` had at the call. If the block fails, all rows of the chapter are removed.
    """
    state, chapter.state = State(chapter.state), State.IMPORTING
    with transaction.atomic():
        # The origin of a fork is locked, so that it cannot be deleted until this transaction ends.
        if chapter.origin_id and not lock_chapter(chapter.origin_id):
            raise UnknownChapter("The chapter was reset or deleted meanwhile. Nothing was stored.")
        chapter.save(force_insert=True)
        _being_imported().filter(pk=chapter.pk).update(updated_at=Now())
        tab1.save(force_insert=True)
        CastMember.objects.bulk_create(cast)
    try:
        yield
        _show(chapter, state)
    except BaseException:
        # If the database fails here too, agents.running.recovery removes the chapter later, once
        # its lease has run out.
        with suppress(DatabaseError):
            remove_in_pieces(_being_imported().filter(pk=chapter.pk))
        raise


@transaction.atomic
def _show(chapter: Session, state: State) -> None:
    """Make the stored chapter visible. If the origin of a fork was deleted meanwhile, with no other
    chapter at its place, the fork becomes the chosen chapter. Raises ImportLost."""
    lock_story(chapter.story_id)
    chosen = Session.objects.filter(story=chapter.story_id, place=chapter.place, is_chosen=True)
    changes = {"updated_at": timezone.now(), "is_chosen": not chosen.exists()}
    if not try_move(_with_lease(chapter), state, **changes):
        raise ImportLost


def store_rows(chapter: Session, rows: Iterable[models.Model]) -> None:
    """Store rows piece by piece. Raises ImportLost if the lease ran out."""
    store_groups(chapter, ([row] for row in rows))


def store_groups(chapter: Session, groups: Iterable[Sequence[models.Model]]) -> None:
    """Store rows piece by piece. A piece has whole groups, because the rows of a group refer to
    each other.

    Raises ImportLost if the lease ran out.
    """
    pauses = _Pauses()
    for piece in _pieces(groups):
        with pauses.after_this(), transaction.atomic():
            if not _with_lease(chapter).update(updated_at=Now()):
                raise ImportLost
            # The database checks foreign keys only after all rows of the piece are stored.
            for model, rows in _by_model(piece).items():
                model._default_manager.bulk_create(rows)


def remove_left_behind() -> int:
    """Remove the unfinished chapters of dead processes, and return the number of these chapters."""
    dead = _being_imported().filter(updated_at__lt=from_now(-IMPORT_LEASE))
    left = list(dead.values_list("pk", flat=True))
    for pk in left:
        remove_in_pieces(dead.filter(pk=pk))
    return len(left)


def let_others_write(worked: float) -> bool:
    """Pause on SQLite if pieces were stored for long enough, so that other processes can write.
    `worked` is the number of seconds since the last pause. Return whether there was a pause.

    SQLite lets one process write at a time. A waiting process tries again only at intervals.
    Without a pause that is longer than such an interval, it could find the database locked at each
    try.
    """
    is_due = connection.vendor == "sqlite" and worked >= _WORK_SECONDS
    if is_due:
        time.sleep(_PAUSE_SECONDS)
    return is_due


class _Pauses:
    """The pauses between the pieces of an import."""

    def __init__(self) -> None:
        self._worked = 0.0

    @contextmanager
    def after_this(self) -> Iterator[None]:
        begun = time.monotonic()
        with _collecting_no_garbage():
            yield
        self._worked += time.monotonic() - begun
        if let_others_write(self._worked):
            self._worked = 0.0


@contextmanager
def _collecting_no_garbage() -> Iterator[None]:
    """Keep Python's garbage collector from running while other processes wait for this piece.

    The collector would take up to a second to look at all the objects of a large file.
    """
    is_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if is_on:
            gc.enable()


def _being_imported() -> "models.QuerySet[Session]":
    return Session.everything.filter(state=State.IMPORTING)


def _with_lease(chapter: Session) -> "models.QuerySet[Session]":
    """Return a queryset with the chapter. It is empty if the lease of the chapter has run out."""
    return _being_imported().filter(pk=chapter.pk, updated_at__gte=from_now(-IMPORT_LEASE))


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


def remove_in_pieces(chapter: "models.QuerySet[Session]") -> None:
    """Remove the chapter in this queryset with all its rows, piece by piece, so that other
    processes can write between two pieces.

    The removal stops when the queryset no longer has the chapter, for example because the process
    that stores the chapter renews its lease late.
    """
    pauses = _Pauses()
    for relation in Session._meta.related_objects:
        # Chapters are not looked for among the related rows. Only forks of this chapter could be
        # found, and these stay.
        if relation.related_model is Session:
            continue
        rows = relation.related_model._base_manager.filter(
            **{f"{relation.field.name}__in": chapter}
        )
        while _remove_piece(chapter, rows, pauses):
            pass
    _remove_piece(chapter, chapter, pauses)


def _remove_piece(
    chapter: "models.QuerySet[Session]", rows: "models.QuerySet[Any]", pauses: _Pauses
) -> int:
    """Remove up to PIECE_ROWS of the rows while the queryset still has the chapter. Return the
    number of removed rows."""
    with pauses.after_this(), transaction.atomic():
        if not list(chapter.select_for_update().values_list("pk")):
            return 0
        keys = list(rows.order_by().values_list("pk", flat=True)[:PIECE_ROWS])
        rows.filter(pk__in=keys).delete()
    return len(keys)
