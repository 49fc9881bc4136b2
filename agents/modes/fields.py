"""Reads, checks and saves the fields that a mode adds to Tab 1 and to prompts."""

import json
import uuid
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from django.db import transaction
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from agents.exceptions import BadSetup
from agents.modes.declaration import Mode
from agents.modes.registry import follow_setup, mode_of
from agents.prompting.forms.schemas import InvalidReply, check_payload, check_storable
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.chapters import (
    SetupChange,
    is_setup_open,
    rename_chapter,
    save_open_setup,
    save_setup,
)
from sessions.exceptions import InvalidInput
from sessions.limits import GIVEN_CHAR_LIMIT, MODE_SETUP_CHAR_LIMIT
from sessions.models import UNTITLED, Attempt, Session
from sessions.payloads import problem_in_words, scrub_payload
from sessions.play.breaking import run_of


def setup_of(chapter: Session) -> BaseModel | None:
    """Return the fields that the mode adds to the chapter's Tab 1, or None if the mode adds no
    fields.

    Raises BadSetup if the stored fields do not fit the mode's present model, and WrongState if the
    mode is not installed.
    """
    return check_setup(mode_of(chapter), chapter.tab1.mode_setup, is_stored=True)


def keep_fields(attempt: Attempt) -> None:
    """Store the fields that the end of the reply needs (`Setup.kept_fields`), as they are when the
    attempt's run begins. So a reply that the user keeps after a stop ends as it began.

    When a new run begins, the attempt still shows the text of an earlier run until the new run
    writes some. So the fields kept for that earlier run are not removed.
    """
    names = mode_of(attempt.session).setup.kept_fields
    if names:
        setup, of_text = present_setup(attempt.session), attempt.text_run_id
        attempt.kept_setup = {str(of_text): attempt.kept_setup_of(of_text)} if of_text else {}
        attempt.kept_setup[str(attempt.run_id)] = {
            name: setup[name] for name in sorted(names) if name in setup
        }
        run_of(attempt).update(kept_setup=attempt.kept_setup)


def setup_at(attempt: Attempt) -> BaseModel | None:
    """Return the fields of `setup_of`. The kept fields have the values that they had when the
    attempt's run began."""
    chapter = attempt.session
    kept = attempt.kept_setup_of(attempt.run_id)
    return check_setup(mode_of(chapter), chapter.tab1.mode_setup | kept, is_stored=True)


@transaction.atomic
def save_mode_setup(
    session_id: uuid.UUID, content: dict[str, Any] | Callable[[dict[str, Any]], None]
) -> Session:
    """Save the mode's fields on Tab 1. A field that is left out gets its default.

    `content` may also be a function that changes the present fields in place. It is called with
    these fields while the chapter's row is locked. If a field is not valid, nothing is saved, and
    BadSetup is raised. Once Tab 1 is closed, only open fields (`Setup.open_fields`) can be changed,
    and only in play; otherwise WrongState is raised.
    """
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    mode = mode_of(chapter)
    if callable(content):
        change, content = content, present_setup(chapter)
        before = deepcopy(content)
        change(content)
        mode.setup.tidies(before, content)
    setup = check_setup(mode, content)
    stored = setup.model_dump(mode="json") if setup else {}
    if not is_setup_open(chapter) and _changes_open_fields(mode, present_setup(chapter), stored):
        return save_open_setup(session_id, stored)
    titles = _title_in(mode, chapter.tab1.mode_setup), mode.setup.title_in(setup)
    saved = save_setup(session_id, SetupChange(mode_setup=stored))
    follow_setup(saved, mode)
    return _retitled(saved, *titles)


def _title_in(mode: Mode, stored: dict[str, Any]) -> str:
    try:
        return mode.setup.title_in(check_setup(mode, stored, is_stored=True))
    except BadSetup:
        return ""


def _retitled(chapter: Session, before: str, now: str) -> Session:
    """Give the chapter the title of its setup, unless somebody has named it otherwise."""
    is_own = chapter.is_untitled or chapter.title == before
    if before == now or not is_own:
        return chapter
    return rename_chapter(chapter.pk, now or UNTITLED)


@transaction.atomic
def change_mode_setup(session_id: uuid.UUID, fields: dict[str, Any]) -> Session:
    """Save these fields of the mode, and leave its other fields as they are. Raises the errors of
    `save_mode_setup`."""
    lock_chapter(session_id)
    return save_mode_setup(session_id, present_setup(get_chapter(session_id)) | fields)


def open_setup(chapter: Session) -> dict[str, Any]:
    """Return the fields of the mode that can be changed in play now. The result is empty if there
    are none."""
    names = mode_of(chapter).setup.open_fields
    if not (names and chapter.is_playable):
        return {}
    return {name: value for name, value in present_setup(chapter).items() if name in names}


def present_setup(chapter: Session) -> dict[str, Any]:
    """Return the mode's fields on Tab 1 as JSON, with all defaults.

    If the stored fields do not fit the mode's present model, they are returned unchanged. Raises
    WrongState if the mode is not installed.
    """
    try:
        setup = setup_of(chapter)
    except BadSetup:
        return dict(chapter.tab1.mode_setup)
    return setup.model_dump(mode="json") if setup else {}


def check_setup(
    mode: Mode, content: dict[str, Any], *, is_stored: bool = False
) -> BaseModel | None:
    """Return the content as an instance of the mode's model, or None if the mode has no model.

    `is_stored` says that the content was checked before it was stored, perhaps by an older release.
    Characters that are no text are replaced, and the mode's validators find `is_stored` in their
    context. Raises BadSetup if the content does not fit the model.
    """
    if is_stored:
        content = scrub_payload(content)
    try:
        check_storable(content)
    except InvalidReply as error:
        raise BadSetup([((), str(error))]) from None
    if len(json.dumps(content, ensure_ascii=False)) > MODE_SETUP_CHAR_LIMIT:
        raise BadSetup([((), f"it is longer than {MODE_SETUP_CHAR_LIMIT:,} characters of JSON")])
    if mode.setup.fields is None:
        if content:
            raise BadSetup([((), f"{mode.title} adds nothing to Tab 1")])
        return None
    try:
        return mode.setup.fields.model_validate(content, context={"is_stored": is_stored})
    except ValidationError as error:
        found: list[ErrorDetails] = error.errors(include_url=False, include_input=False)
        raise BadSetup([(one["loc"], problem_in_words(one)) for one in found]) from None


def _changes_open_fields(mode: Mode, before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether the mode has open fields, and no other field changes."""
    closed = (before.keys() | after.keys()) - mode.setup.open_fields
    return bool(mode.setup.open_fields) and all(before.get(one) == after.get(one) for one in closed)


def check_given(mode: Mode, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that a prompt has besides its words, as they are stored.

    Raises InvalidInput if the fields do not fit the mode's model.
    """
    payload = dict(given)
    try:
        if mode.play.given is None:
            raise InvalidReply(f"a prompt of {mode.title} carries nothing but its words")
        stored = check_payload(payload, mode.play.given).model_dump(mode="json")
        if len(json.dumps(stored, ensure_ascii=False)) > GIVEN_CHAR_LIMIT:
            raise InvalidReply(f"it is longer than {GIVEN_CHAR_LIMIT:,} characters of JSON")
    except InvalidReply as invalid:
        raise InvalidInput(f"given: {invalid}. Nothing was sent.") from None
    return stored


def given_to_store(session_id: uuid.UUID, given: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the fields that a prompt to this chapter has besides its words, or None if it has
    none.

    The fields have the form that `check_given` returns. Raises the errors of `check_given`, and
    InvalidInput if this chapter's world does not allow them.
    """
    if given is None:
        return None
    chapter = get_chapter(session_id)
    mode = mode_of(chapter)
    stored = check_given(mode, given)
    mode.play.checks_given(chapter, stored)
    return stored


def given_of(attempt: Attempt) -> Any:
    """Return the fields of the attempt's prompt as an instance of `Play.given`, or None if the
    prompt has no such fields.

    Attempts are stored for a long time. So a mode that changes its model still has to accept the
    fields of old attempts.
    """
    model = mode_of(attempt.session).play.given
    if model is None or attempt.given is None:
        return None
    return model.model_validate(attempt.given)
