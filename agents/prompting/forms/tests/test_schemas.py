import json
import math
from copy import deepcopy
from functools import reduce
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.embedded.catalogue import KNOWN_MODELS
from agents.llm.facts.model_facts import facts_of
from agents.prompting.agent import Agent
from agents.prompting.budget import output_limit
from agents.prompting.declarations import CONTEXT_SUMMARY, WORLD_SUMMARY
from agents.prompting.forms.schemas import (
    InvalidReply,
    TurnDelta,
    WorldChapterLock,
    check_payload,
    delta_schema_for,
    json_schema_for,
    with_roster,
)
from agents.prompting.tests.payloads import DELTA, LOCK, SHAPES, changed
from sessions.roster import Character

# A number of characters per token that every measured JSON text in English reached or exceeded.
CHARACTERS_PER_TOKEN = 2.3

ROSTER = [Character(1, "red", "Mara Venn"), Character(2, "orange", "Agent Orange")]
KEYWORDS_OF_STRICT_MODES = {
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def deep(value: object, levels: int = 30) -> object:
    return reduce(lambda inner, _: [inner], range(levels), value)


class TestCheckPayload:
    @pytest.mark.parametrize(
        ("path", "value"),
        [
            ("range.from_marker", 1),
            ("range.prompt_count_in_chunk", "7"),
            ("range.prompt_count_in_chunk", 99),
            ("location_updates.where", None),
            ("state_changes.0.before", False),
            ("state_changes.0.after", 2.5),
            ("canon_locks", None),
            ("canon_locks", "one truth"),
            ("major_events.0.participants", "Mara"),
            ("unresolved_threads", {"thread": "a", "stakes": "b", "next_likely_trigger": "c"}),
            ("character_actions.0.agent_slot", None),
            ("character_actions.0.agent_slot", 0),
            ("major_events.0.at", ["prompt 3", None, 99]),
            ("major_events.0.at", "3 and 4"),
            ("major_events.0.at!", None),
            ("canon_locks_at", {"which": 3}),
            ("canon_locks_at!", None),
        ],
    )
    def test_it_accepts_what_means_the_same_and_leaves_it_alone(
        self, path: str, value: object
    ) -> None:
        payload = changed(DELTA, path, value)
        before = deepcopy(payload)
        check_payload(payload, TurnDelta)
        assert payload == before

    @pytest.mark.parametrize(
        ("path", "value", "words"),
        [
            ("range!", None, "range is missing"),
            ("world!", None, "memory_type must be 'turn_delta'"),
            ("major_events", "nothing", "major_events.0 must be an object"),
            ("canon_locks", [["x"]], "canon_locks.0 must be text"),
            ("canon_locks", 3, "canon_locks must be a list"),
            ("canon_locks", ["x"] * 15, "canon_locks has more than 14 entries"),
            ("canon_locks", ["x" * 801], "canon_locks.0 is longer than 800 characters"),
            ("range.prompt_count_in_chunk", "some", "must be a whole number"),
            ("range.from_marker", {"a": 1}, "range.from_marker must be text"),
        ],
    )
    def test_it_says_what_is_wrong(self, path: str, value: object, words: str) -> None:
        payload = LOCK if path == "world!" else changed(DELTA, path, value)
        with pytest.raises(InvalidReply) as refused:
            check_payload(payload, TurnDelta)
        assert words in str(refused.value)

    def test_the_message_does_not_carry_the_text(self) -> None:
        payload = changed(DELTA, "range", "the secret of the house")
        with pytest.raises(InvalidReply) as refused:
            check_payload(payload, TurnDelta)
        assert "secret" not in str(refused.value)

    @pytest.mark.parametrize(
        ("value", "words"),
        [
            (deep([]), "nested"),
            (math.nan, "not finite"),
            (math.inf, "not finite"),
            ("\0", "not text"),
            ({"\ud800": 1}, "not text"),
        ],
    )
    def test_what_no_database_takes_is_refused(self, value: object, words: str) -> None:
        with pytest.raises(InvalidReply, match=words):
            check_payload({**DELTA, "x": value}, TurnDelta)

    @given(key=st.just("x") | st.sampled_from(sorted(DELTA)), value=json_values)
    def test_any_value_is_accepted_or_refused(self, key: str, value: object) -> None:
        payload = {**DELTA, key: value}
        try:
            check_payload(payload, TurnDelta)
        except InvalidReply:
            return
        # The payload can be stored as JSON in UTF-8, and reading it again gives the same payload.
        stored = json.dumps(payload, allow_nan=False, ensure_ascii=False).encode()
        assert json.loads(stored) == payload


class TestRoster:
    @pytest.mark.parametrize(
        "agents", [[], None, "three", 7, [{"slot": "red"}], LOCK["agents"] * 9]
    )
    def test_a_lock_is_accepted_whatever_roster_it_has(self, agents: object) -> None:
        check_payload({**LOCK, "agents": agents}, WorldChapterLock)

    def test_the_program_fills_in_the_roster(self) -> None:
        wrong = {**LOCK, "agents": [{"slot": 3, "color": "green", "name": "Nobody"}]}
        assert with_roster(wrong, ROSTER) == LOCK


class TestJsonSchemas:
    @pytest.mark.parametrize(("shape", "payload"), SHAPES)
    @pytest.mark.parametrize("tight", [False, True])
    def test_they_ask_for_exactly_the_keys_of_the_shape(
        self, shape: Any, payload: dict[str, Any], tight: bool
    ) -> None:
        assert _fits(payload, json_schema_for(shape, tight=tight))

    @pytest.mark.parametrize("shape", [WorldChapterLock, TurnDelta])
    def test_the_plain_ones_use_only_what_strict_modes_take(self, shape: Any) -> None:
        for node in _nodes(json_schema_for(shape)):
            assert node.keys() <= KEYWORDS_OF_STRICT_MODES

    @pytest.mark.parametrize("shape", [WorldChapterLock, TurnDelta])
    def test_the_tight_ones_bound_every_text_and_list(self, shape: Any) -> None:
        for node in _nodes(json_schema_for(shape, tight=True)):
            if node["type"] == "array":
                assert node["maxItems"] <= 7
            if node["type"] == "string":
                assert "enum" in node or node["maxLength"] <= 200

    @pytest.mark.parametrize("name", sorted(KNOWN_MODELS))
    @pytest.mark.parametrize(
        ("agent", "shape"), [(WORLD_SUMMARY, WorldChapterLock), (CONTEXT_SUMMARY, TurnDelta)]
    )
    def test_an_embedded_model_that_fills_all_of_a_tight_one_stays_below_its_output_limit(
        self, name: str, agent: Agent, shape: Any
    ) -> None:
        limit = output_limit(agent, facts_of(f"embedded:{name}"))
        assert _most_characters(json_schema_for(shape, tight=True)) <= limit * CHARACTERS_PER_TOKEN

    @pytest.mark.parametrize("tight", [False, True])
    def test_a_delta_schema_knows_only_its_prompts_and_the_roster(self, tight: bool) -> None:
        properties = delta_schema_for(8, 14, ROSTER, tight=tight)["properties"]
        chunk = properties["range"]["properties"]
        assert [part["enum"] for part in chunk.values()] == [["8"], ["14"], [7]]
        action = properties["character_actions"]["items"]["properties"]
        assert action["agent_slot"]["enum"] == [0, 1, 2]
        assert "enum" not in action["name"]
        for node in _nodes(delta_schema_for(8, 14, ROSTER)):
            assert node.keys() <= KEYWORDS_OF_STRICT_MODES


def _most_characters(schema: dict[str, Any]) -> int:
    match schema["type"]:
        case "object":
            return sum(
                len(key) + len('"": , ') + _most_characters(part)
                for key, part in schema["properties"].items()
            )
        case "array":
            return int(schema["maxItems"]) * (_most_characters(schema["items"]) + len(", "))
        case "string":
            return max(map(len, schema.get("enum", ["x" * schema.get("maxLength", 0)]))) + len('""')
        case _:
            return len("100")


def _nodes(schema: dict[str, Any]) -> list[dict[str, Any]]:
    children = [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]
    return [schema, *(node for child in children for node in _nodes(child))]


def _fits(value: Any, schema: dict[str, Any]) -> bool:
    match schema["type"]:
        case "object":
            return (
                value.keys() == schema["properties"].keys() == set(schema["required"])
                and schema["additionalProperties"] is False
                and all(_fits(value[key], part) for key, part in schema["properties"].items())
            )
        case "array":
            return all(_fits(entry, schema["items"]) for entry in value)
        case "string":
            return isinstance(value, str) and value in schema.get("enum", [value])
        case _:
            return isinstance(value, int)
