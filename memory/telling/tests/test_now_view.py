from memory.fold.folding import fold
from memory.fold.records import Block
from memory.fold.tests.fold_blocks import DELTA, correction, delta, lock
from memory.telling.now_view import now_view


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

    def test_a_scene_that_was_withdrawn_is_gone_until_the_story_comes_back_to_it(self) -> None:
        def places(*blocks: Block) -> list[str]:
            sections = {one.key: one.items for one in now_view(fold(list(blocks)))}
            return [item.replaces for item in sections.get("where", ())]

        ferry = delta(1, location_updates={"where": "the ferry"})
        assert places(lock(), ferry) == ["the ferry"]
        withdrawn = [lock(), ferry, correction(replaces="the ferry")]
        assert places(*withdrawn) == []
        light = delta(2, location_updates={"where": "the light"})
        back = delta(3, location_updates={"where": "the ferry"})
        assert places(*withdrawn, light) == ["the light"]
        assert places(*withdrawn, light, back) == ["the ferry"]

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
