"""Tests of the fields and schemas that keep the embedded model from writing East Asian scripts."""

from dataclasses import replace
from typing import Any

import pytest

from agents.llm.providers.base import Message, ModelRequest
from agents.llm.providers.east_asian import is_east_asian, without_east_asian
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.prompting.forms.schemas import WorldChapterLock, json_schema_for


def request(text: str) -> ModelRequest:
    messages = (Message("system", "You write."), Message("user", text))
    return ModelRequest(model="m", messages=messages, max_output_tokens=9)


def fields_of(request: ModelRequest) -> dict[str, Any]:
    """Return the fields that only a request to the embedded server has."""
    return EmbeddedProvider(base_url="http://127.0.0.1:1").extra_fields(request)


@pytest.mark.parametrize(
    "text", ["门", "ひかり", "カ", "등대", "。", "「", "ᄀ", "﹁", "\U00020000"]
)
def test_any_of_its_letters_and_marks_count(text: str) -> None:
    assert is_east_asian(request(f"She said {text} and left").messages)
    assert "grammar" not in fields_of(request(text))


def test_free_texts_get_a_pattern_within_their_length_and_named_ones_none() -> None:
    schema = without_east_asian(json_schema_for(WorldChapterLock, tight=True))
    world = schema["properties"]["world"]["properties"]
    assert world["genre"]["pattern"].endswith("{0,80}$")
    assert world["rules_of_reality"]["items"]["pattern"].endswith("{0,120}$")
    assert schema["properties"]["memory_type"] == {"type": "string", "enum": ["world_chapter_lock"]}
    assert schema["required"] == list(schema["properties"])
    plain = without_east_asian({"type": "array", "items": [{"type": "string"}]})
    assert plain["items"][0]["pattern"].endswith("*$")


@pytest.mark.parametrize(("text", "is_held"), [("A lamp.", True), ("门", False)])
def test_json_is_held_to_it_by_its_schema(text: str, is_held: bool) -> None:
    schema = json_schema_for(WorldChapterLock, tight=True)
    fields = fields_of(replace(request(text), json_schema=schema))
    sent = fields["response_format"]["json_schema"]["schema"]
    assert sent == (without_east_asian(schema) if is_held else schema)
    assert "grammar" not in fields
