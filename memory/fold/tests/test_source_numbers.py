"""Facts of memory know the prompts from which they come."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.fold.folding import fold
from memory.fold.present import present
from memory.fold.prompt_numbers import numbers_in, sources_of
from memory.fold.records import Prompts
from memory.fold.source_numbers import with_checked_sources
from memory.fold.tests.fold_blocks import DELTA, delta, lock
from memory.telling.now_view import now_view
from memory.telling.session_state import memory_lines

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
WITH_NUMBERS: dict[str, Any] = {
    "location_updates": {**DELTA["location_updates"], "at": [9]},
    "major_events": [{**DELTA["major_events"][0], "at": [9, 10]}],
    "state_changes": [{**DELTA["state_changes"][0], "at": [11]}],
    "relationship_shifts": [{**DELTA["relationship_shifts"][0], "at": [12]}],
    "items_clues_discovered": [{**DELTA["items_clues_discovered"][0], "at": [13]}],
    "unresolved_threads": [{**DELTA["unresolved_threads"][0], "at": [8]}],
    "canon_locks": ["three knocks are the keeper's sign", "the ferry leaks"],
    "contradictions_or_questions": ["is the bell cracked?"],
    "canon_locks_at": [10, 0],
    "contradictions_or_questions_at": [14],
}


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ([3, 1, 3], [1, 3]),
        (7, [7]),
        ("3, 5", [3, 5]),
        (["12", 4], [4, 12]),
        ("8-14", []),
        ("prompt 3", []),
        ([True, None, 2.0, [3], {"at": 4}], []),
        (None, []),
    ],
)
def test_numbers_are_read_as_a_model_may_write_them(written: object, numbers: list[int]) -> None:
    assert numbers_in(written) == numbers


def test_a_fact_comes_from_the_prompts_that_it_names_or_else_from_its_stretch() -> None:
    assert sources_of(Prompts(1, 7), Prompts(8, 14, (9, 10))) == [Prompts(1, 7), Prompts(9, 10)]
    assert sources_of(Prompts(1, 7, (3,)), Prompts(1, 7, (3,))) == [Prompts(3, 3)]


class TestCheck:
    def test_numbers_of_prompts_that_the_audience_did_not_witness_are_dropped(self) -> None:
        payload = {
            "memory_type": "turn_delta",
            "location_updates": {"where": "the ferry", "at": [7, 9]},
            "major_events": [{"event": "a knock", "at": [8, 11, 99]}, {"event": "a bell", "at": 8}],
            "state_changes": {"key": "lamp", "after": "dark", "at": "9, 12"},
            "canon_locks": ["the lamp is dark", "the keeper drowned"],
            "canon_locks_at": [9, [8, 12]],
        }
        assert with_checked_sources(payload, [9, 12]) == {
            "memory_type": "turn_delta",
            "location_updates": {"where": "the ferry", "at": [9]},
            "major_events": [{"event": "a knock"}, {"event": "a bell"}],
            "state_changes": {"key": "lamp", "after": "dark", "at": [9, 12]},
            "canon_locks": ["the lamp is dark", "the keeper drowned"],
            "canon_locks_at": [9, 12],
        }

    @given(
        st.dictionaries(
            st.sampled_from([*WITH_NUMBERS, "memory_type"]),
            json_values | st.lists(st.dictionaries(st.sampled_from(["at", "event"]), json_values)),
        )
    )
    def test_it_takes_any_json_and_changes_nothing_but_the_numbers(
        self, payload: dict[str, Any]
    ) -> None:
        def without_numbers(value: Any) -> Any:
            if isinstance(value, dict):
                return {key: one for key, one in value.items() if key != "at"}
            return list(map(without_numbers, value)) if isinstance(value, list) else value

        checked = with_checked_sources(payload, [9, 12])
        beside = ("canon_locks_at", "contradictions_or_questions_at")
        for part in {*payload, *checked} - set(beside):
            assert repr(without_numbers(checked[part])) == repr(without_numbers(payload[part]))
        again = with_checked_sources(checked, [9, 12])
        assert repr(again) == repr(checked)


class TestFold:
    def test_every_fact_of_the_now_view_knows_its_prompts(self) -> None:
        sections = now_view(fold([lock(), delta(2, **WITH_NUMBERS)]))
        found = {
            (section.key, item.text): [str(one) for one in item.sources]
            for section in sections
            for item in section.items
        }
        assert found == {
            ("canon", "the keeper drowned"): ["0"],
            ("canon", "three knocks are the keeper's sign"): ["10"],
            ("canon", "the ferry leaks"): ["8-14"],
            ("questions", "is the bell cracked?"): ["14"],
            ("open", "who knocks?"): ["8"],
            ("open", "who put it out?"): ["0"],
            ("where", "the ferry"): ["9"],
            ("where", "Mara Venn: the ferry"): ["9-10", "13"],
            ("where", "Tom: the ferry"): ["9-10"],
            ("where", "the boatman: the ferry"): ["9-10"],
            ("state", "lamp: dark"): ["11"],
            ("relationships", "Mara Venn and Tom: distrust"): ["12"],
            ("items", "wet list"): ["13"],
            ("timeline", "Three knocks under the hull"): ["9-10"],
        }

    def test_a_fact_that_was_told_twice_leads_to_both(self) -> None:
        again = delta(3, state_changes=[{"key": "lamp", "after": "lit", "at": [20]}])
        folded = fold([lock(), delta(2, **WITH_NUMBERS), again])
        [state] = [one for one in now_view(folded) if one.key == "state"]
        assert [str(one) for one in state.items[0].sources] == ["11", "20"]
        [lamp] = [one for one in present(folded).past if one.text.startswith("lamp: dark")]
        assert (lamp.held_at.at, lamp.mention.prompts.at) == ((11,), (20,))

    def test_prompts_are_told_the_same_with_numbers_and_without(self) -> None:
        plain = with_checked_sources(WITH_NUMBERS, [])
        assert "at" not in repr(plain).split("'")
        told = [line.text for line in memory_lines(fold([lock(), delta(2, **WITH_NUMBERS)]))]
        assert told == [line.text for line in memory_lines(fold([lock(), delta(2, **plain)]))]
