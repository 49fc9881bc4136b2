from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.canon.ruling_payloads import Answer, answer_payload, correction_payload
from memory.models import MemoryBlock
from memory.telling.rendering import readable_block, render

LOCK: dict[str, Any] = {
    "memory_type": "world_chapter_lock",
    "world": {
        "genre": "ghost story",
        "tone": "quiet\n dread",
        "themes": ["memory", "guilt"],
        "rules_of_reality": ["the sea takes one name a winter"],
        "factions_or_powers": [],
        "key_lore": ["the lamp never went out before", "the church keeps a list"],
        "safety_or_boundaries": [],
    },
    "chapter": {
        "premise": "the light went out",
        "location": "the quay of Harl",
        "time": "night",
        "environment": ["ice", "fog"],
        "active_threats": [],
        "open_mysteries": ["who put it out?"],
        "chapter_goals": ["reach the light"],
    },
    "agents": [{"slot": 1, "color": "red", "name": "Mara"}, {"slot": 2, "name": "Tom"}],
    "canon_locks": ["the keeper is missing", "The sea takes one name a winter"],
    "assumptions": [],
}
DELTA: dict[str, Any] = {
    "memory_type": "turn_delta",
    "range": {"from_marker": "8", "to_marker": "14", "prompt_count_in_chunk": 7},
    "location_updates": {"where": "the ferry", "notable_environment_changes": ["fog lifts"]},
    "major_events": [
        {
            "event": "Three knocks under the hull",
            "cause": "",
            "effect": "Tom steps back",
            "participants": ["Tom", "Mara"],
        },
        {"event": "Mara kneels", "cause": "", "effect": "", "participants": ["Mara"]},
    ],
    "character_actions": [
        {"agent_slot": 2, "name": "Tom", "did": "raised the lamp", "intent": "see", "result": ""}
    ],
    "state_changes": [{"key": "lamp", "before": "lit", "after": "dark", "notes": ""}],
    "relationship_shifts": [
        {"between": ["Mara", "Tom"], "change": "distrust", "evidence": "she turned away"}
    ],
    "items_clues_discovered": [
        {"thing": "wet list", "who_found": "Mara", "why_it_matters": "names her sister"}
    ],
    "unresolved_threads": [
        {"thread": "who knocks?", "stakes": "the ferry", "next_likely_trigger": "next knock"},
        {"thread": "where is the keeper?", "stakes": "", "next_likely_trigger": ""},
    ],
    "canon_locks": ["three knocks are the keeper's sign"],
    "contradictions_or_questions": ["was the lamp lit?"],
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def block(payload: Any, kind: str = "turn_delta", first: int = 8, last: int = 14) -> MemoryBlock:
    return MemoryBlock(
        type=kind, from_prompt_index=first, to_prompt_index=last, json_payload=payload
    )


def lock_block(payload: Any) -> MemoryBlock:
    return block(payload, "world_chapter_lock", 0, 0)


class TestRenderLock:
    def test_it_is_compact_text_without_empty_fields(self) -> None:
        assert render(lock_block(LOCK)) == (
            "World and chapter\n"
            "World: ghost story; quiet dread\n"
            "Themes: memory, guilt\n"
            "Rules: the sea takes one name a winter\n"
            "Lore:\n"
            "- the lamp never went out before\n"
            "- the church keeps a list\n"
            "Chapter: the light went out\n"
            "Scene: the quay of Harl; night; ice; fog\n"
            "Mysteries: who put it out?\n"
            "Goals: reach the light\n"
            "Canon, must not change: the keeper is missing"
        )


class TestRenderDelta:
    def test_it_is_compact_text_without_empty_fields(self) -> None:
        assert render(block(DELTA)) == (
            "Prompts 8-14\n"
            "Where: the ferry\n"
            "Around: fog lifts\n"
            "Events:\n"
            "- Three knocks under the hull (effect: Tom steps back) [Tom, Mara]\n"
            "- Mara kneels\n"
            "Deeds: Tom: raised the lamp (intent: see)\n"
            "Changed: lamp: lit -> dark\n"
            "Between them: Mara and Tom: distrust (she turned away)\n"
            "Found: wet list (by Mara; names her sister)\n"
            "Open:\n"
            "- who knocks? (at stake: the ferry; next: next knock)\n"
            "- where is the keeper?\n"
            "Canon, must not change: three knocks are the keeper's sign\n"
            "Unclear: was the lamp lit?"
        )


class TestRenderCorrection:
    def test_it_says_that_it_overrules(self) -> None:
        payload = correction_payload(
            canon="The keeper is alive.", replaces="the keeper drowned", reason="He waved."
        )
        assert render(block(payload, "canon_correction", 9, 9)) == (
            "Correction after prompt 9, overrules what stands above\n"
            "Now true: The keeper is alive.\n"
            "No longer true: the keeper drowned\n"
            "Why: He waved."
        )

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (Answer.KEEP, "the old canon stands"),
            (Answer.TAKE_NEW, "the new stands"),
            (Answer.IGNORE, "nothing changes"),
        ],
    )
    def test_an_answer_says_what_was_asked_and_what_stands(
        self, answer: Answer, words: str
    ) -> None:
        payload = answer_payload("Is he alive?", answer)
        assert render(block(payload, "canon_correction", 9, 9)) == (
            "Correction after prompt 9, overrules what stands above\n"
            f"Question: Is he alive?\nAnswer: {words}"
        )


class TestRenderMemory:
    def test_each_kind_of_block_has_its_text_in_order(self) -> None:
        blocks = [
            lock_block(LOCK),
            block(DELTA, first=1, last=7),
            block({"canon": "x"}, "canon_correction", 9, 9),
            block(None),
        ]
        texts = [render(one) for one in blocks]
        assert [text.splitlines()[0] for text in texts] == [
            "World and chapter",
            "Prompts 1-7",
            "Correction after prompt 9, overrules what stands above",
            "Prompts 8-14: nothing new",
        ]


class TestOddPayloads:
    """Tests of payloads with arbitrary JSON. A model writes the payloads, so they may contain
    anything."""

    @given(payload=json_values)
    @pytest.mark.parametrize("kind", MemoryBlock.Type.values)
    def test_any_json_is_rendered(self, kind: str, payload: Any) -> None:
        odd = block(payload, kind)
        assert render(odd)
        assert readable_block(odd).title

    @given(
        at=st.sampled_from([(LOCK, key) for key in LOCK] + [(DELTA, key) for key in DELTA]),
        value=json_values,
    )
    def test_any_value_under_a_known_key_is_rendered(
        self, at: tuple[dict[str, Any], str], value: Any
    ) -> None:
        payload, key = at
        changed = block({**payload, key: value}, payload["memory_type"])
        assert render(changed)
        assert all(section.lines for section in readable_block(changed).sections)
