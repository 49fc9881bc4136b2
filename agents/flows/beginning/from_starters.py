"""Makes chapters from starters. No model is called: the lock and the first turns come with the
starter, and their rows say so."""

import uuid

from django.db import transaction

from agents.flows.beginning.locking import lock_without_a_model, request_lock
from agents.flows.replies.finishing import commit_written
from agents.models import Job
from agents.modes.registry import begin_chapter, mode_of
from agents.prompting.forms.schemas import with_roster
from memory.blocks.blocks import write_lock
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.chapters import free_title, save_setup
from sessions.chapter.starters import Starter, find_starter, setup_of, unchanged_starter
from sessions.chapter.states import move
from sessions.exceptions import UnknownStarter
from sessions.models import Session, State


@transaction.atomic
def begin_starter(name: str, *, title: str = "") -> Session:
    """Create a chapter from this starter, in play after the starter's turns. Raises
    UnknownStarter."""
    return _play(*_open(name, title))


@transaction.atomic
def open_starter(name: str, *, title: str = "") -> Session:
    """Create a chapter whose Tab 1 has the starter's texts and can be changed. Raises
    UnknownStarter."""
    chapter, _ = _open(name, title)
    return chapter


@transaction.atomic
def start_play(session_id: uuid.UUID) -> Job | None:
    """Lock Tab 1, and return the job of agent 0, which writes the first memory.

    Returns None if no model is called: the lock and the first turns of an unchanged starter come
    with it, and a mode may write its lock itself. Raises the errors of `request_lock`.
    """
    # No change of Tab 1 may come between the comparison and the lock.
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    if mode_of(chapter).setup.lock_of is not None:
        lock_without_a_model(session_id)
        return None
    starter = unchanged_starter(chapter) if chapter.state == State.DRAFT_TAB1 else None
    if starter is not None:
        _play(chapter, starter)
        return None
    if chapter.starter:
        Session.objects.filter(pk=session_id, state=State.DRAFT_TAB1).update(starter="")
    return request_lock(session_id)


def _open(name: str, title: str) -> tuple[Session, Starter]:
    starter = find_starter(name)
    if starter is None:
        raise UnknownStarter("There is no such starter here. Nothing was made.")
    chapter = begin_chapter(title or free_title(starter.title))
    Session.objects.filter(pk=chapter.pk).update(starter=starter.name)
    save_setup(chapter.pk, setup_of(starter))
    return get_chapter(chapter.pk), starter


def _play(chapter: Session, starter: Starter) -> Session:
    """Store the lock and the turns of the starter in the same way as the lock of an agent and turns
    that were played."""
    session_id = chapter.pk
    move(
        Session.objects.filter(pk=session_id),
        State.LOCKING,
        refusal="This chapter was started already; Tab 1 is locked.",
    )
    payload = with_roster(starter.lock_payload(), chapter.characters)
    write_lock(session_id, payload, came_with_starter=True)
    for turn in starter.turns:
        actor = starter.slot_of(turn.to)
        commit_written(session_id, turn.reply, words=turn.prompt, actor=actor)
    return get_chapter(session_id)
