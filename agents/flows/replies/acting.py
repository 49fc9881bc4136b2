"""Runs acts, which are changes that the user makes to the world without a model."""

import uuid
from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel

from agents.modes.registry import check_changes, mode_of
from agents.modes.world_rules import Act
from agents.prompting.forms.schemas import InvalidReply, check_payload
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput
from sessions.models import Change, Session
from sessions.play import acts
from sessions.play.played_world import NewChange


def do_act(session_id: uuid.UUID, name: str, arguments: Mapping[str, Any]) -> list[Change]:
    """Run the act with this name, and return the changes that it made.

    Raises InvalidInput if the mode declares no such act, if the arguments do not fit, or if the
    world does not allow the act. Raises the errors of `sessions.play.acts.act`.
    """
    declared = {one.name: one for one in mode_of(get_chapter(session_id)).world.acts}
    act = declared.get(name)
    if act is None:
        known = f"there is {', '.join(declared)}" if declared else "there is none"
        raise InvalidInput(
            f"{name[:60]!r} is no act of this way to play; {known}. Nothing was changed."
        )
    try:
        checked = check_payload(dict(arguments), act.arguments)
    except InvalidReply as invalid:
        raise InvalidInput(f"The act {name} was not done: {invalid}.") from None
    return acts.act(session_id, partial(_changes, act, checked))


def _changes(act: Act[Any, Any], arguments: BaseModel, chapter: Session) -> list[NewChange]:
    """Return the act's changes to the present world. The caller has locked the chapter's row."""
    made = check_changes(chapter, act.run(arguments, mode_of(chapter).world.now(chapter)))
    return [NewChange(one.kind, one.payload, cause=act.name) for one in made]
