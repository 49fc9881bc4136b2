"""End Chapter, and opening an ended chapter again."""

import uuid

from django.db import transaction

from agents.summarizing import settle_memory
from agents.warmup import stop_warmup
from sessions.access import get_chapter
from sessions.exceptions import TurnInFlight, WrongState
from sessions.models import Session
from sessions.states import PLAYABLE, State, move


def request_end(session_id: uuid.UUID) -> Session:
    """End the chapter as soon as memory covers every prompt.

    Waits for a summary that is being written and adds the last delta. Raises WrongState with no
    prompts and TurnInFlight while a reply is being written.
    """
    with transaction.atomic():
        chapter = get_chapter(session_id)
        ending = Session.objects.filter(
            pk=session_id, state__in=PLAYABLE, turn_in_flight=None, prompt_index__gt=0
        )
        if not ending.update(is_ending=True):
            raise _refusal(chapter)
        settle_memory(session_id)
    stop_warmup(session_id)
    return get_chapter(session_id)


def reopen(session_id: uuid.UUID) -> Session:
    """Play on in an ended chapter; its drafts stay."""
    get_chapter(session_id)
    move(
        Session.objects.filter(pk=session_id, state=State.ENDED),
        State.ACTIVE,
        refusal="Only an ended chapter can be reopened.",
    )
    return get_chapter(session_id)


def _refusal(chapter: Session) -> WrongState:
    if chapter.state not in PLAYABLE:
        return WrongState(f"Only a chapter in play can be ended ({chapter.get_state_display()}).")
    if chapter.prompt_index == 0:
        return WrongState("There are no prompts yet, so there is nothing to end. Play first.")
    return TurnInFlight("A reply is being written. Wait for it or stop it, then end the chapter.")
