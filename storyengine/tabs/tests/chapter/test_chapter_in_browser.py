"""Tests of Tab 3's scripts in a real browser."""

import re
import zipfile

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import FAST, HELD, open_chapter
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]


# The script returns how much of the page is below the window.
BELOW = """() => document.documentElement.scrollHeight - scrollY - innerHeight"""


IS_HIGHER = "height => document.documentElement.scrollHeight > height"


class TestMemory:
    def test_the_newest_block_is_seen_first_and_a_reader_stays(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        for number in range(1, 8):
            chapter.prompt(1, f"Beat {number}.")
        chapter.wait_for_memory(7, seconds=30)
        page.set_viewport_size({"width": 390, "height": 844})
        open_chapter(page, chapter)
        expect(page.get_by_role("heading", name="Prompts 1-7")).to_be_in_viewport()
        expect(page.get_by_role("heading", name="World and chapter")).not_to_be_in_viewport()

        blocks = page.locator("#memory-blocks")
        blocks.evaluate("element => { element.scrollTop = 0; }")
        chapter.prompt(1, "Beat 8.")
        expect(page.locator("#meter")).to_contain_text("8 prompts")
        assert blocks.evaluate("element => element.scrollTop") == 0

    def test_the_panel_that_was_chosen_stays_where_it_was_when_memory_grows(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        rule = f"/api/session/{chapter.session_id}/canon-correction"
        for number in range(40):
            page.request.post(rule, data={"canon": f"Fact number {number}."})
        open_chapter(page, chapter)
        now, blocks = page.locator("#memory-now"), page.locator("#memory-blocks")
        expect(now).to_be_hidden()
        page.get_by_role("radio", name="Now").check()
        expect(blocks).to_be_hidden()
        now.evaluate("element => { element.scrollTop = 200; }")
        page.request.post(rule, data={"canon": "Ice bears weight."})
        expect(now).to_contain_text("Ice bears weight.")
        expect(now).to_be_visible()
        expect(blocks).to_be_hidden()
        assert now.evaluate("element => element.scrollTop") == 200

    def test_an_item_is_corrected_from_the_now_view(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_chapter(page, chapter, "?show=now")
        item = page.locator("#memory-now li").first
        old = item.locator(".now-text").inner_text()
        item.get_by_role("link", name="Correct").click()
        expect(page.locator("#canon-replaces")).to_have_value(old)
        page.locator("#canon-canon").fill("It is otherwise.")
        page.get_by_role("button", name="Correct the canon").click()
        expect(page.locator("#memory-now")).to_be_visible()
        expect(page.locator("#memory-now")).to_contain_text("It is otherwise.")


class TestDrafts:
    def test_one_is_taken_away_in_the_format_that_is_chosen(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The stairs are wet.")
        chapter.end(seconds=30)
        chapter.build_narrative("", 300, seconds=60)
        page.set_viewport_size({"width": 390, "height": 664})
        open_chapter(page, chapter)
        page.locator("#draft-text").scroll_into_view_if_needed()
        button = page.get_by_role("button", name="Download Chapter")
        expect(button).to_be_in_viewport(ratio=1)
        for suffix in (".docx", ".epub"):
            page.get_by_role("radio", name=suffix).check()
            with page.expect_download() as download:
                button.click()
            assert download.value.suggested_filename.endswith(suffix)
            assert zipfile.is_zipfile(download.value.path())

    def test_that_one_is_finished_is_spoken_and_the_focus_stays_on_the_page(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The stairs are wet.")
        chapter.end(seconds=30)
        open_chapter(page, chapter)
        page.get_by_role("button", name="Build Narrative").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#said")).to_have_text(
            re.compile(r"Draft 1 is finished: [0-9,]+ words")
        )
        expect(page.locator("#draft-text")).to_be_visible()
        assert page.evaluate("document.activeElement !== document.body")

    @pytest.mark.parametrize("width", [390, 1280])
    def test_one_that_grows_is_followed_below_much_memory(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient, width: int
    ) -> None:
        chapter.prompt(1, "The stairs are wet.")
        rule = f"/api/session/{chapter.session_id}/canon-correction"
        for number in range(40):
            page.request.post(rule, data={"canon": f"Fact number {number}."})
        chapter.end(seconds=30)
        program.model.timing.tokens_per_second = FAST / 4
        page.set_viewport_size({"width": width, "height": 844})
        open_chapter(page, chapter)
        page.get_by_role("button", name="Build Narrative").click()
        expect(page.locator(".prose")).not_to_be_empty()
        page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
        before = page.evaluate("document.documentElement.scrollHeight")
        page.wait_for_function(IS_HIGHER, arg=before + 844)
        # The page has become longer by more than a window, and its end is still in view.
        assert page.evaluate(BELOW) < 60

    def test_an_earlier_one_can_be_read_while_a_further_one_is_written(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The stairs are wet.")
        chapter.end(seconds=30)
        chapter.build_narrative("", 300, seconds=60)
        # At this speed, the draft is still being written at the end of the test.
        program.model.timing.tokens_per_second = HELD
        open_chapter(page, chapter)
        first = page.locator(".told-text").all_inner_texts()
        page.get_by_role("button", name="Build Narrative").click()
        expect(page.locator("#draft-text")).to_have_count(0)

        page.get_by_role("link", name="Draft 1").click()
        shown = page.locator("#draft-text")
        expect(page.locator(".told-text")).to_have_text(first)
        shown.evaluate("element => getSelection().selectAllChildren(element)")
        progress = page.locator("#build-state")
        before = progress.inner_text()
        expect(progress).not_to_have_text(before)
        # The receipts beside the prose are not selected with it.
        selected = page.evaluate("getSelection().toString()").split("\n")
        assert [line for line in selected if line.strip()] == first

        page.get_by_role("link", name="Read it as it grows").click()
        expect(page.locator(".prose")).not_to_be_empty()
        expect(shown).to_have_count(0)
        page.get_by_role("button", name="Cancel").click()
        expect(page.locator(".told-text")).to_have_text(first)

    def test_instructions_typed_while_one_is_written_are_saved_afterwards(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The stairs are wet.")
        chapter.end(seconds=30)
        program.model.timing.tokens_per_second = HELD
        open_chapter(page, chapter)
        page.get_by_role("button", name="Build Narrative").click()
        expect(page.get_by_role("button", name="Cancel")).to_be_visible()
        page.fill("#definition", "Plain words.")
        state = page.locator("#saved-state")
        expect(state).to_have_text("not saved")
        page.get_by_role("button", name="Cancel").click()
        expect(state).to_have_text("saved")
        page.reload()
        expect(page.locator("#definition")).to_have_value("Plain words.")
