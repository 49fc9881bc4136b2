import pytest

from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.chapter.example import fill_example, load_example
from sessions.exceptions import InvalidInput

pytestmark = pytest.mark.django_db


class TestLoadExample:
    def test_it_is_whole(self) -> None:
        title, change = load_example()
        assert title
        assert change.world_text
        assert change.chapter_text
        assert change.selected_agent_slots == [1, 2, 3]
        assert all(by_slot["1"] and by_slot["3"] for by_slot in change.texts.values())


class TestFillExample:
    def test_it_fills_an_empty_tab_1(self) -> None:
        title, change = load_example()
        chapter = fill_example(create_chapter().pk)
        assert chapter.title == title
        assert chapter.tab1.world_text == change.world_text
        assert chapter.tab1.chapter_text == change.chapter_text
        assert {name: chapter.agent_texts(name) for name in change.texts} == change.texts

    @pytest.mark.parametrize(
        "typed",
        [
            SetupChange(world_text="x"),
            SetupChange(chapter_text="x"),
            SetupChange(texts={"name": {"2": "Mara"}}),
            SetupChange(texts={"pronouns": {"2": "he/him"}}),
            SetupChange(texts={"public_text": {"7": "A pilot."}}),
            SetupChange(texts={"identity_text": {"1": "x"}}),
            # Character 7 is not selected. The page hides its text, but the text still counts as
            # typed by the user.
            SetupChange(texts={"identity_text": {"7": "x"}}),
        ],
    )
    def test_it_is_refused_when_something_was_typed(self, typed: SetupChange) -> None:
        chapter = save_setup(create_chapter().pk, typed)
        with pytest.raises(InvalidInput):
            fill_example(chapter.pk)
        after = get_chapter(chapter.pk)
        assert after.title == chapter.title
        assert after.agent_names == chapter.agent_names
        assert (after.tab1.world_text, after.tab1.chapter_text) == (
            chapter.tab1.world_text,
            chapter.tab1.chapter_text,
        )
        assert after.agent_texts("identity_text") == chapter.agent_texts("identity_text")
