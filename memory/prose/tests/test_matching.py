"""Tests of the function that leads paragraphs to turns. It needs no database."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from memory.prose.receipts.matching import Confidence, Match, Matcher, PlayedTurn, SceneProse
from memory.tests.played_stories import INVENTIONS, make_story, retell, with_inventions

WORDS = st.sampled_from(
    [
        "ferry",
        "ledger",
        "staircase",
        "bell",
        "pilot",
        "quay",
        "rope",
        "chapel",
        "kettle",
        "Mara",
        "Tinne",
        "said",
        "the",
        "and",
        "渡し船",
        "灯台",
        "Fähre",
        "Glocke",
        "lost",
    ]
)
TEXTS = st.lists(WORDS, max_size=12).map(" ".join)


def match(turns: list[PlayedTurn], paragraphs: list[str], *, first: int = 1) -> list[Match]:
    last = max((turn.number for turn in turns), default=1)
    return Matcher(turns, paragraphs).match(SceneProse(first, last, paragraphs))


class TestASession:
    def test_nineteen_of_twenty_paragraphs_lead_to_their_turn_and_inventions_are_marked(
        self,
    ) -> None:
        story = make_story(84)
        told = with_inventions(retell(story))
        matches = match(story.turns, [text for text, _ in told])
        right = sum(
            one.prompts == (turn,) for one, (_, turn) in zip(matches, told, strict=True) if turn
        )
        invented = [text for one, (text, _) in zip(matches, told, strict=True) if not one.prompts]
        assert right >= 0.95 * sum(bool(turn) for _, turn in told)
        assert set(invented) >= set(INVENTIONS)

    def test_six_hundred_turns_are_told_apart(self) -> None:
        story = make_story(600)
        told = [pair for pair in retell(story) if pair[1] % 6 == 0]
        matches = match(story.turns, [text for text, _ in told])
        right = sum(one.prompts == (turn,) for one, (_, turn) in zip(matches, told, strict=True))
        assert right >= 0.95 * len(told)

    def test_an_invention_is_marked_although_it_names_the_cast(self) -> None:
        story = make_story(84)
        matches = match(story.turns, list(INVENTIONS))
        assert {one.confidence for one in matches} == {Confidence.INVENTED}


class TestAParagraph:
    def test_a_quotation_is_certain_and_a_hint_is_not(self) -> None:
        story = make_story(20)
        quotation = story.beats[4]
        [quoted] = match(story.turns, [quotation])
        assert quoted == Match((5,), Confidence.CERTAIN)
        noun = quotation.split()[2]
        [hint] = match(story.turns, [f"Much later somebody would remember it: the {noun}."])
        assert hint.confidence in (Confidence.UNSURE, Confidence.INVENTED)

    def test_a_scene_keeps_to_its_stretch_unless_another_turn_is_surely_meant(self) -> None:
        story = make_story(20)
        turns = story.turns
        turns[1] = PlayedTurn(2, "The otter scatters the walnut.")
        turns[14] = PlayedTurn(15, "The otter scatters the walnut.")
        texts = ["The otter scattered the walnut.", story.beats[3]]
        matches = Matcher(turns, texts).match(SceneProse(11, 20, texts))
        assert [one.prompts for one in matches] == [(15,), (4,)]

    def test_a_scene_that_tells_other_turns_leads_to_them_if_one_is_surely_meant(self) -> None:
        story = make_story(40)
        turns = story.turns
        turns[3] = PlayedTurn(4, "The gilded walnut and the seal.")
        short = "\u201cThe gilded walnut,\u201d she said, and the seal looked up."
        texts = [story.beats[2], short, story.beats[4]]
        matcher = Matcher(turns, texts)
        matches = matcher.match(SceneProse(21, 40, texts))
        assert [one.prompts for one in matches] == [(3,), (4,), (5,)]
        [alone] = matcher.match(SceneProse(21, 40, [short]))
        assert alone == Match()

    def test_other_languages(self) -> None:
        german = [
            PlayedTurn(1, "Die Fähre legt ab, und der Fährmann zählt seine Münzen."),
            PlayedTurn(2, "Im Leuchtturm brennt kein Licht mehr. Aldous sucht den Schlüssel."),
            PlayedTurn(3, "Eine Möwe stiehlt den Brief vom Fensterbrett."),
        ]
        told = "Aldous suchte lange nach dem Schlüssel; im Leuchtturm war alles Licht erloschen."
        assert match(german, [told])[0].prompts == (2,)
        japanese = [
            PlayedTurn(1, "渡し船が港を離れ、船頭は硬貨を数える。"),
            PlayedTurn(2, "灯台の明かりが消えている。修道士は鍵を探す。"),
            PlayedTurn(3, "カモメが窓辺の手紙を盗む。"),
        ]
        assert match(japanese, ["修道士は暗い灯台で長いあいだ鍵を探した。"])[0].prompts == (2,)


class TestEveryText:
    @given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=8))
    def test_each_paragraph_has_one_match_with_turns_that_exist(
        self, played: list[str], paragraphs: list[str]
    ) -> None:
        turns = [PlayedTurn(number, text) for number, text in enumerate(played, 1)]
        matches = match(turns, paragraphs)
        assert len(matches) == len(paragraphs)
        for one in matches:
            assert set(one.prompts) <= {turn.number for turn in turns}
            assert list(one.prompts) == sorted(set(one.prompts))
            assert (one.confidence == Confidence.INVENTED) == (not one.prompts)
        assert matches == match(turns, paragraphs)

    @given(st.integers(1, 40), st.integers(0, 1_000))
    def test_a_chapter_that_repeats_its_beats_leads_to_them_in_order(
        self, count: int, seed: int
    ) -> None:
        story = make_story(count, seed)
        matches = match(story.turns, list(story.beats))
        told = [one.prompts[0] for one in matches if one.prompts]
        assert all(one <= other for one, other in itertools.pairwise(told))
        assert len(told) >= 0.95 * count
