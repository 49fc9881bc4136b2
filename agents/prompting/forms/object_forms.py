"""Chooses JSON or XML as the form of the answers of agents 0 and 8, and reads these answers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from pydantic_core import from_json

from agents.llm.facts.model_facts import ModelFacts
from agents.prompting.forms.schemas import InvalidReply, Payload, Reading, Shape
from agents.prompting.forms.tolerant_json import Check, read_json
from agents.prompting.forms.tolerant_xml import (
    describe_as_xml,
    read_unfinished_xml,
    read_xml,
    root_tag,
)
from agents.prompting.prompt_files import render_prompt
from sessions.payloads import scrub_payload

Form = Literal["json", "xml"]

_RANKS = ("low", "medium", "high", "very_high")
_RELIABLE = ("high", "very_high")


def form_for(facts: ModelFacts) -> Form:
    """Return the form that this model's answer should have.

    The form is XML only if no JSON schema can be sent and the model writes XML better than JSON.
    """
    is_better_at_xml = _RANKS.index(facts.xml_reliability) > _RANKS.index(facts.json_reliability)
    return "xml" if is_better_at_xml and not facts.json_schema else "json"


def format_reminder(facts: ModelFacts, shape: type[Shape]) -> str:
    """Return a text for the end of the request that reminds the model of the form of its answer.
    Returns "" if the model needs no reminder.

    The agent's instructions show the shape as JSON, so a model that has to write XML needs this
    text.
    """
    if form_for(facts) == "xml":
        return render_prompt("format_reminder_xml", shape=describe_as_xml(shape))
    if facts.json_schema or facts.json_reliability in _RELIABLE:
        return ""
    return render_prompt("format_reminder_json")


def read_unfinished(text: str, shape: type[Shape]) -> Payload:
    """Return the readable part of a reply that is still being written, in either form.

    The last string value may be incomplete, and the result is empty as long as there is nothing to
    read. Nothing is checked, because the result is only shown.
    """
    if f"<{root_tag(shape)}" in text:
        return read_unfinished_xml(text, shape)
    start = text.find("{")
    if start < 0:
        return {}
    try:
        found = from_json(text[start:].encode(), allow_partial="trailing-strings")
    except ValueError:
        # Text may follow the object, or the model has made a mistake that is mended later.
        found = None
    return found if isinstance(found, dict) else {}


def read_reply(
    text: str, shape: type[Shape], check: Check, *, form: Form = "json", is_last_try: bool = False
) -> Reading:
    """Read a reply in the form that the request asked for, or else in the other form.

    Characters that are no text, such as a control character behind a backslash, are replaced.
    Raises InvalidReply, and no other error, if `check` accepts the reply in neither form. The
    message is about the form that the reply seems to have.
    """

    def check_text(payload: Payload) -> None:
        check(scrub_payload(payload))

    readers: dict[Form, Callable[[], Reading]] = {
        "json": lambda: read_json(text, check_text, is_last_try=is_last_try),
        "xml": lambda: read_xml(text, shape, check_text, is_last_try=is_last_try),
    }
    other: Form = "xml" if form == "json" else "json"
    try:
        reading = readers[form]()
    except InvalidReply:
        marks = {"json": '"memory_type"', "xml": f"<{root_tag(shape)}>"}
        if marks[other] not in text:
            raise
        reading = readers[other]()
    return replace(reading, payload=scrub_payload(reading.payload))
