"""Begins the next chapter of a story, and hands on to it what its mode declares.

Memory is handed on by memory.before.story_so_far. A mode may also hand on a setup and a world
(`WorldRules.hands_on`). A chapter of a mode with a lock gets the memory at its lock. A chapter of
another mode is in play from its beginning and gets it then.
"""

import logging
import uuid
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction
from django.dispatch import receiver

from agents.flows.remembering.late_results import world_at_end
from agents.modes.declaration import Mode, Stage
from agents.modes.fields import check_setup
from agents.modes.registry import find_mode, follow_setup
from agents.modes.world_rules import HandedOn
from agents.running.unforeseen import traceback_of
from memory.before.changes_before import can_renew
from memory.before.story_so_far import renew_story_so_far, rewrite_story_so_far, write_story_so_far
from sessions.chapter.access import get_chapter
from sessions.chapter.cast import cast_changed
from sessions.chapter.chapters import reset_chapter
from sessions.chapter.stories import begin_next_chapter, chapter_before
from sessions.limits import PAYLOAD_CHAR_LIMIT
from sessions.models import Session, Tab1Inputs
from sessions.payloads import check_stored_size, scrub_payload

logger = logging.getLogger(__name__)


@transaction.atomic
def begin_next(story_id: uuid.UUID) -> Session:
    """Begin the chapter that follows the last one of the story. No model is called.

    Raises UnknownStory, and the errors of the mode's `hands_on`: BadSetup for a setup that does not
    fit, and InvalidInput for a world that is too large.
    """
    chapter = begin_next_chapter(story_id)
    if chapter.follows is not None:
        _go_on_from(chapter.follows, chapter)
    return _begun(chapter)


@transaction.atomic
def reset_and_hand_on(session_id: uuid.UUID) -> Session:
    """Reset the chapter, and hand on to it again what the mode hands on from the chapter before. A
    chapter that is in play from its beginning also gets the memory of the chapter before again. A
    first chapter keeps its setup if the setup is its world, because the program writes the lock
    from it."""
    setup = get_chapter(session_id).tab1.mode_setup
    chapter = reset_chapter(session_id)
    before, mode = chapter_before(chapter), find_mode(chapter.mode)
    hands_on = mode is not None and mode.world.hands_on is not None
    if hands_on and before is not None and before.mode == chapter.mode:
        _go_on_from(before, chapter)
    elif mode is not None:
        if mode.setup.lock_of is not None:
            _store(chapter, mode_setup=setup)
        follow_setup(chapter, mode)
    return _begun(chapter)


def _go_on_from(before: Session, chapter: Session) -> None:
    """Store the setup and the world that the mode hands on from the chapter before."""
    mode = find_mode(chapter.mode)
    if mode is None:
        return
    handed_on = _handed_on(mode, before, chapter)
    if handed_on.setup is not None:
        setup = check_setup(mode, handed_on.setup, is_stored=True)
        _store(chapter, mode_setup=setup.model_dump(mode="json") if setup else {})
    _store_world(chapter, handed_on.world)
    follow_setup(chapter, mode)


def _handed_on(mode: Mode, before: Session, chapter: Session) -> HandedOn:
    hands_on = mode.world.hands_on
    return hands_on(world_at_end(before), before, chapter) if hands_on else HandedOn()


def hand_on(chapter: Session) -> None:
    """Store, at the lock of a chapter, the memory and the world of the chapter before."""
    write_story_so_far(chapter)
    _hand_on_world(chapter)


@transaction.atomic
def renew(session_id: uuid.UUID) -> Session:
    """Store the memory and the world of the chapter before as they are now. Raises the errors of
    `renew_story_so_far`."""
    _hand_on_world(renew_story_so_far(session_id))
    return get_chapter(session_id)


@receiver(cast_changed)
def _follow_cast(sender: Any, chapter: Session, **kwargs: Any) -> None:
    """Tell the people who take part now, if the cast changes after memory was handed on."""
    if can_renew(chapter):
        rewrite_story_so_far(chapter)
        _hand_on_world(chapter)


def _begun(chapter: Session) -> Session:
    mode = find_mode(chapter.mode)
    if mode is not None and Stage.LOCK not in mode.stages:
        hand_on(chapter)
    return get_chapter(chapter.pk)


def _hand_on_world(chapter: Session) -> None:
    """Store the world that the mode hands on now. If the mode raises an error, the error is logged,
    and the world that was handed on earlier is kept."""
    before, mode = chapter_before(chapter), find_mode(chapter.mode)
    if before is None or mode is None:
        return
    try:
        with transaction.atomic():
            _store_world(chapter, _handed_on(mode, before, chapter).world)
    except DatabaseError:
        raise
    except Exception as error:  # noqa: BLE001  (a mode may raise anything)
        logger.error("chapter %s: hands_on failed\n%s", chapter.pk, traceback_of(error))


def _store_world(chapter: Session, world: Any) -> None:
    stored = scrub_payload(dict(world))
    check_stored_size(stored, most=PAYLOAD_CHAR_LIMIT, label="What is handed on of the world")
    _store(chapter, handed_on=stored)


def _store(chapter: Session, **fields: Any) -> None:
    Tab1Inputs.objects.filter(session=chapter).update(**fields)
    chapter.tab1.refresh_from_db()
