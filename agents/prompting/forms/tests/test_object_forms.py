"""Tests of the form in which a model is asked to answer, JSON or XML, and of answers in the other
form."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.llm.facts.model_facts import facts_of
from agents.prompting.forms.object_forms import form_for, format_reminder, read_reply
from agents.prompting.forms.schemas import (
    InvalidReply,
    Payload,
    TurnDelta,
    WorldChapterLock,
    check_payload,
)
from agents.prompting.tests.payloads import DELTA, as_xml, deeply_nested

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


def test_a_schema_makes_json_the_better_form(tmp_path: Any, settings: Any) -> None:
    file = tmp_path / "models.toml"
    entry = '[[model]]\npattern = "mine"\njson_reliability = "low"\nxml_reliability = "high"\n'
    file.write_text(entry + "json_schema = true\n")
    settings.MODELS_FILE = str(file)
    assert form_for(facts_of("mine")) == "json"
    assert format_reminder(facts_of("mine"), TurnDelta) == ""


@pytest.mark.parametrize("model", ["gpt-4o", "deepseek-chat", "llama3.2:3b"])
def test_a_model_with_a_schema_or_reliable_json_is_not_reminded(model: str) -> None:
    assert format_reminder(facts_of(model), TurnDelta) == ""


def test_others_are_reminded_of_json() -> None:
    reminder = format_reminder(facts_of(UNKNOWN), TurnDelta)
    assert "one JSON object" in reminder
    assert len(reminder) < 500


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


@given(
    begin=st.sampled_from(["", "<turn_delta>", '{"memory_type": "turn_delta", "x": ']),
    nested=deeply_nested(
        ("[", "]"), ('{"memory_type":', "}"), ("<turn_delta>", "</turn_delta>"), ("<a>{", "},</a>")
    ),
    end=st.sampled_from(["", ",}", "}</turn_delta>", "</turn_delta>}"]),
    form=st.sampled_from(["json", "xml"]),
    is_last_try=st.booleans(),
)
@settings(max_examples=80)
def test_brackets_and_tags_in_one_another_are_refused(
    begin: str, nested: str, end: str, form: Any, is_last_try: bool
) -> None:
    with pytest.raises(InvalidReply):
        read_reply(begin + nested + end, TurnDelta, check, form=form, is_last_try=is_last_try)
