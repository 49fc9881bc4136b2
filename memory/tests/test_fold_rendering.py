from typing import Any

import pytest

from memory.fold_rendering import fold_text, medium, minimal, now_view, trim
from memory.folding import fold
from memory.tests.fold_blocks import DELTA, correction, delta, lock


class TestRendering:
    def test_medium_says_everything(self) -> None:
        blocks = [lock(), delta(**DELTA), correction(replaces="the keeper drowned")]
        assert fold_text(medium(fold(blocks))) == (
            "Boundaries: no cruelty to children\n"
            "World:\n"
            "- ghost story\n"
            "- quiet dread\n"
            "Rules: the sea takes one name a winter\n"
            "Premise: the light went out\n"
            "Canon, must not change: three knocks are the keeper's sign\n"
            "No longer true: the keeper drowned\n"
            "So far: 1-7 Three knocks under the hull (so Tom steps back)\n"
            "Between them: Mara Venn and Tom: distrust (she turned away)\n"
            "Found: wet list (by Mara; names her sister)\n"
            "State: lamp: dark (no oil)\n"
            "Others: the boatman: the ferry\n"
            "Scene: the ferry\n"
            "Around: fog lifts\n"
            "Where: Mara Venn, Tom: the ferry\n"
            "Open:\n"
            "- who put it out?\n"
            "- who knocks? (at stake: the ferry; next: next knock)"
        )

    def test_minimal_says_it_without_asides(self) -> None:
        assert fold_text(minimal(fold([lock(), delta(**DELTA)]))) == (
            "Boundaries: no cruelty to children\n"
            "World:\n"
            "- ghost story\n"
            "- quiet dread\n"
            "Premise: the light went out\n"
            "Canon, must not change:\n"
            "- the keeper drowned\n"
            "- three knocks are the keeper's sign\n"
            "So far: 1-7 Three knocks under the hull\n"
            "Between them: Mara Venn and Tom: distrust\n"
            "Found: wet list\n"
            "State: lamp: dark\n"
            "Scene: the ferry\n"
            "Where: Mara Venn, Tom: the ferry\n"
            "Open:\n"
            "- who put it out?\n"
            "- who knocks?"
        )

    def test_minimal_tells_a_block_in_one_short_line(self) -> None:
        events = [f"{number} " + "word " * 20 for number in range(5)]
        (line,) = next(
            section.items
            for section in minimal(fold([delta(major_events=events)]))
            if section.name == "So far"
        )
        assert len(line) <= 160
        assert line.startswith("1-7 0 word")
        assert line.endswith("word…")

    @pytest.mark.parametrize("variant", [medium, minimal])
    def test_beside_the_lock_only_what_it_does_not_say(self, variant: Any) -> None:
        # Ruled before the first prompt, and yet not what the lock says.
        early = correction(0, canon="ice bears weight")
        text = fold_text(variant(fold([lock(), early, delta(**DELTA)]), beside_lock=True))
        assert "ghost story" not in text
        assert "the keeper drowned\n" not in text
        assert "who put it out?" not in text
        assert "ice bears weight" in text
        assert "who knocks?" in text

    @pytest.mark.parametrize("variant", [medium, minimal])
    def test_beside_the_lock_it_says_what_of_it_no_longer_holds(self, variant: Any) -> None:
        withdrawn = [lock(), correction(replaces="the keeper drowned")]
        text = fold_text(variant(fold(withdrawn), beside_lock=True))
        assert "No longer true: the keeper drowned" in text

    def test_nothing_is_said_twice(self) -> None:
        said = delta(canon_locks=["the door is shut"], state_changes=[{"key": "The door is shut"}])
        assert fold_text(medium(fold([said]))) == "Canon, must not change: the door is shut"

    def test_without_blocks_there_is_nothing_to_say(self) -> None:
        assert medium(fold([])) == minimal(fold([])) == []


class TestTrim:
    def test_it_sheds_by_rank_and_the_oldest_first(self) -> None:
        closing = delta(
            2,
            major_events=["the boat sinks"],
            state_changes=[{"key": "who knocks?", "after": "resolved"}],
            unresolved_threads=["who swims?"],
        )
        sections = medium(fold([delta(**DELTA), closing]))
        order: list[str] = []
        shown = [f"{section.name}|{item}" for section in sections for item in section.items]
        for room in range(len(fold_text(sections)) + 200, -1, -1):
            kept = trim(sections, room, len)
            left = [f"{section.name}|{item}" for section in kept for item in section.items]
            order += [line for line in shown if line not in left and line not in order]
        names = [line.split("|")[0] for line in order]
        assert order[0].startswith("So far|1-7 Three knocks")
        assert order[1].startswith("So far|8-14 the boat sinks")
        assert list(dict.fromkeys(names)) == [
            "So far",
            "Closed",
            "Others",
            "Between them",
            "Found",
            "State",
            "Unclear",
            "Around",
            "Scene",
            "Open",
            "Canon, must not change",
        ]

    def test_with_room_for_all_nothing_changes(self) -> None:
        sections = medium(fold([lock(), delta(**DELTA)]))
        assert trim(sections, 10_000, len) == sections


class TestNowView:
    def test_each_item_leads_to_its_prompts_and_says_what_a_correction_names(self) -> None:
        later = delta(2, state_changes=[{"key": "Lamp", "after": "lit", "notes": "new oil"}])
        sections = {one.key: one for one in now_view(fold([lock(), delta(**DELTA), later]))}
        (item,) = sections["state"].items
        assert (item.text, item.aside, item.replaces) == ("lamp: lit", "new oil", "lamp: lit")
        assert (str(item.first), str(item.latest)) == ("1-7", "8-14")
        assert list(sections) == [
            "canon",
            "questions",
            "open",
            "where",
            "state",
            "relationships",
            "items",
            "timeline",
        ]

    def test_where_begins_with_the_scene(self) -> None:
        sections = {one.key: one for one in now_view(fold([lock(), delta(**DELTA)]))}
        assert [(item.text, item.aside) for item in sections["where"].items] == [
            ("the ferry", "fog lifts"),
            ("Mara Venn: the ferry", ""),
            ("Tom: the ferry", ""),
            ("the boatman: the ferry", ""),
        ]

    def test_what_is_asked_or_over_offers_no_correction_and_the_newest_comes_first(self) -> None:
        blocks = [
            lock(),
            delta(**DELTA),
            delta(
                2,
                contradictions_or_questions=["is the bell cracked?"],
                state_changes=[{"key": "who knocks?", "after": "resolved"}],
            ),
            correction(replaces="three knocks are the keeper's sign"),
        ]
        sections = {one.key: one.items for one in now_view(fold(blocks))}
        assert [item.text for item in sections["questions"]] == [
            "is the bell cracked?",
            "memory says the keeper drowned, but he knocks",
        ]
        over = [item for key in ("questions", "closed", "withdrawn") for item in sections[key]]
        assert len(over) == 4
        assert [item.replaces for item in over] == [""] * 4
