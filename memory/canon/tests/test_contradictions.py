"""Memory may ask which of two facts is true. These tests find the two facts in such a question."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory.canon.contradictions import Contradiction, read_contradiction
from memory.fold.folding import fold
from memory.fold.tests.fold_blocks import DELTA, delta, lock
from memory.telling.now_view import NowSection, now_view

DROWNED = "the keeper drowned"


def sections(*canon: str) -> list[NowSection]:
    return now_view(fold([lock(), delta(**DELTA), delta(2, canon_locks=list(canon))]))


class TestReadContradiction:
    @pytest.mark.parametrize(
        ("question", "new"),
        [
            ("old: the keeper drowned | new: the keeper lives", "the keeper lives"),
            ("Old: “The keeper drowned.” | New: “The keeper lives.”", "The keeper lives."),
            (
                "old canon = keeper drowned; new canon = he (the keeper) lives",
                "he (the keeper) lives",
            ),
            ("old: the keeper drowned, all say -> new: he's alive |", "he's alive"),
            ("Memory: the keeper drowned. Chunk: he knocks", "he knocks"),
        ],
    )
    def test_in_the_form_that_is_asked_for_both_are_told(self, question: str, new: str) -> None:
        told = read_contradiction(question, sections())
        assert told == Contradiction(DROWNED, new, is_of_canon=True)
        assert told.is_clear

    @pytest.mark.parametrize(
        ("question", "told"),
        [
            (
                "old: lamp: dark | new: the lamp burns",
                Contradiction("lamp: dark", "the lamp burns"),
            ),
            ("old: nobody knows | new: he lives", Contradiction("", "he lives")),
            ("old: keeper | new: he lives", Contradiction("", "he lives")),
            ("old: the keeper drowned | new: unknown", Contradiction(DROWNED, "", True)),
            (
                "old: the keeper drowned | new: The keeper drowned!",
                Contradiction(DROWNED, "", True),
            ),
            ("memory says the keeper drowned, but he knocks", Contradiction(DROWNED, "", True)),
            ("did the keeper drown?", Contradiction()),
            ("is the lamp dark?", Contradiction()),
            ("", Contradiction()),
        ],
    )
    def test_what_is_not_told_is_left_to_the_game_master(
        self, question: str, told: Contradiction
    ) -> None:
        assert read_contradiction(question, sections()) == told
        assert not told.is_clear

    def test_of_two_facts_none_is_guessed_and_a_longer_one_is_not_its_part(self) -> None:
        longer = "the keeper drowned in the ice"
        both = read_contradiction(
            "the keeper drowned, yet three knocks are the keeper's sign", sections()
        )
        assert both == Contradiction()
        said = read_contradiction("Has the keeper drowned in the ice?", sections(longer))
        assert said.old == longer
        part = "old: three knocks | new: two knocks"
        assert read_contradiction(part, sections()).is_clear
        assert read_contradiction(part, sections("three knocks woke Tom")).old == ""

    @given(st.text(max_size=200), st.text(max_size=200))
    def test_whatever_a_model_writes_the_old_is_a_fact_of_memory(self, old: str, new: str) -> None:
        held = {item.replaces for section in sections() for item in section.items}
        for question in (old, f"old: {old} | new: {new}"):
            assert read_contradiction(question, sections()).old in held
