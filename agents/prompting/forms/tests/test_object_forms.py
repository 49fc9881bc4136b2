"""Tests of the form in which a model is asked to answer, JSON or XML, and of answers in the other
form."""

import json
from typing import Any

import pytest

from agents.llm.facts.model_facts import facts_of
from agents.prompting.forms.object_forms import form_for, format_reminder, read_reply
from agents.prompting.forms.schemas import (
    InvalidReply,
    Payload,
    TurnDelta,
    WorldChapterLock,
    check_payload,
)
from agents.prompting.tests.payloads import DELTA, as_xml

UNKNOWN = "a-model-nobody-knows"


def check(payload: Payload) -> None:
    check_payload(payload, TurnDelta)


@pytest.mark.parametrize(
    ("model", "form"),
    [
        ("claude-sonnet-4", "xml"),
        ("gpt-4o", "json"),
        ("gemini-2.0-flash", "json"),
        ("deepseek-chat", "json"),
        (UNKNOWN, "json"),
    ],
)
def test_only_a_model_that_is_better_at_xml_is_asked_for_it(model: str, form: str) -> None:
    assert form_for(facts_of(model)) == form


@pytest.mark.parametrize("shape", [WorldChapterLock, TurnDelta])
def test_a_model_that_is_better_at_xml_is_shown_the_shape_in_tags(shape: Any) -> None:
    reminder = format_reminder(facts_of("claude-opus-4"), shape)
    assert "<canon_locks><item>...</item></canon_locks>" in reminder


@pytest.mark.parametrize("form", ["json", "xml"])
@pytest.mark.parametrize(
    "text",
    [json.dumps(DELTA), as_xml(DELTA), f"```xml\n{as_xml(DELTA)}\n```", json.dumps(DELTA)[:-1]],
)
def test_either_form_is_read_whichever_was_asked_for(text: str, form: Any) -> None:
    assert read_reply(text, TurnDelta, check, form=form).payload == DELTA


@pytest.mark.parametrize(
    ("form", "text", "words"),
    [
        ("json", "no", "no JSON object"),
        ("xml", "no", "no <turn_delta>"),
        ("json", "<turn_delta></turn_delta>", "range is missing"),
        ("xml", '{"memory_type": "turn_delta"}', "range is missing"),
        ("xml", "<turn_delta><range>", "breaks off"),
    ],
)
def test_a_refusal_speaks_of_the_form_that_the_reply_has(form: Any, text: str, words: str) -> None:
    with pytest.raises(InvalidReply, match=words):
        read_reply(text, TurnDelta, check, form=form)
