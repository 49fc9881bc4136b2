"""Tests of what can be done with a turn on Tab 2, in a real browser."""

import json
import re
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tabs.tests.in_browser import FAST, HELD, expect_idle, expect_turn, open_play
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PHONE: Any = {"viewport": {"width": 390, "height": 664}, "is_mobile": True, "has_touch": True}

# How much of the window the transcript has.
SHARE = "() => document.getElementById('transcript').clientHeight / innerHeight"
# The tab stops within each turn.
STOPS = """() => [...document.querySelectorAll(".turn")].map((turn) =>
  [...turn.querySelectorAll("a, button, summary, input:not([type=hidden])")]
    .filter((one) => one.tabIndex >= 0 && one.checkVisibility()).length)"""
PLACES = """() => [...document.querySelectorAll(".turn .entry, .prompt-cell, .under-transcript")]
  .map((one) => one.getBoundingClientRect().top)"""
FIRST_IN_VIEW = """() => {
  const top = document.getElementById("transcript").getBoundingClientRect().top;
  const turns = [...document.querySelectorAll("[data-turn]")];
  const first = turns.find((one) => one.getBoundingClientRect().bottom > top);
  return [Number(first.dataset.turn), Math.round(first.getBoundingClientRect().top - top)];
}"""
NUMBERS = "() => [...document.querySelectorAll('[data-turn]')].map((one) => +one.dataset.turn)"


@pytest.fixture
def phone(browser: Browser, program: ScriptedProgram) -> Iterator[Page]:
    program.model.clear_faults()
    program.model.timing.tokens_per_second = FAST
    context = browser.new_context(base_url=program.url, **PHONE)
    yield open_page(context)
    context.close()


@pytest.mark.parametrize("keys", ["Control+Enter", "Meta+Enter"])
def test_on_a_touch_screen_with_a_keyboard_enter_breaks_the_line_and_with_control_it_sends(
    phone: Page, chapter: ChapterClient, keys: str
) -> None:
    open_play(phone, chapter)
    box = phone.locator("#prompt-text")
    box.fill("Somebody knocks.")
    box.press("Enter")
    expect(box).to_have_value("Somebody knocks.\n")
    box.press(keys)
    expect(box).to_have_value("")
    expect_turn(phone, 1, "Somebody knocks.")


class TestWritingAgain:
    def test_the_words_come_back_and_make_another_reply_by_another_character(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("For later.")
        page.locator("[data-again]:visible").click()
        expect(box).to_have_value("Knock.")
        expect(box).to_be_focused()
        expect(page.locator("#panel-1")).to_be_checked()
        expect(page.locator("#writes-again")).to_contain_text("You are writing prompt 1 again.")
        page.locator("#panel-2").check()
        box.fill("Knock twice.")
        # Nothing of it is lost by a reload.
        page.reload()
        expect(box).to_have_value("Knock twice.")
        expect(page.locator("#writes-again")).to_be_visible()
        page.locator("#panel-2").check()
        box.press("Enter")
        expect_turn(page, 1, "Knock twice.")
        expect(page.locator(".choice")).to_contain_text("Reply 2 of 2")
        # What was in the box before comes back, and is for a prompt of its own.
        expect(box).to_have_value("For later.")
        expect(page.locator("#writes-again")).to_be_hidden()
        box.press("Enter")
        expect_turn(page, 2, "For later.")
        told = chapter.read()
        assert told["prompt_index"] == 2
        assert [one["agent_slot"] for one in told["events"]][:2] == [None, 2]

    def test_it_can_be_left_as_it_is(self, page: Page, chapter: ChapterClient) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("For later.")
        page.locator("[data-again]:visible").click()
        box.fill("Knock twice.")
        page.get_by_role("link", name="Leave it as it is").click()
        expect(box).to_have_value("For later.")
        expect(page.locator("#writes-again")).to_be_hidden()

    def test_once_play_has_gone_on_the_words_are_for_the_next_prompt(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        page.locator("[data-again]:visible").click()
        page.locator("#prompt-text").fill("Knock twice.")
        chapter.prompt(2, "Enter.")
        expect(page.locator("#transcript")).to_contain_text("2) Enter.")
        expect(page.locator("#writes-again")).to_be_hidden()
        expect(page.locator("#prompt-text")).to_have_value("Knock twice.")
        expect(page.locator("#again")).to_have_value("")


class TestActs:
    def test_each_turn_has_one_tab_stop_and_the_arrow_keys_lead_on(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        for number in (1, 2, 3):
            chapter.prompt(number, f"Beat {number}.")
        open_play(page, chapter)
        page.locator("#another-reply").click()
        expect(page.locator(".choice")).to_contain_text("Reply 2 of 2")
        expect_idle(page)
        assert page.evaluate(STOPS) == [1, 1, 1]
        first = page.get_by_role("toolbar", name="Prompt 1", exact=True)
        first.get_by_role("link", name="Why this reply?").focus()
        expect(first).to_have_css("opacity", "1")
        for key, name in (
            *(("ArrowRight", "Copy"), ("ArrowRight", "Link"), ("End", "Begin another story")),
            *(("Home", "Why this reply?"), ("ArrowLeft", "Why this reply?")),
        ):
            page.keyboard.press(key)
            assert name in page.evaluate("document.activeElement.innerText")
            assert page.evaluate(STOPS) == [1, 1, 1]
        page.keyboard.press("ArrowDown")
        assert page.evaluate("document.activeElement.closest('.turn').dataset.turn") == "2"

    def test_they_are_quiet_until_pointed_at_and_nothing_moves(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        for number in (1, 2):
            chapter.prompt(number, f"Beat {number}.")
        open_play(page, chapter)
        turn, acts = page.locator("#turn-1"), page.locator("#turn-1 .turn-acts")
        expect(acts).to_have_css("opacity", "0")
        expect(page.locator("#latest-acts")).to_have_css("opacity", "1")
        before = page.evaluate(PLACES)
        turn.hover()
        expect(acts).to_have_css("opacity", "1")
        assert page.evaluate(PLACES) == before

    def test_a_copy_is_the_turn_as_it_is_told(self, page: Page, chapter: ChapterClient) -> None:
        for number in (1, 2):
            chapter.prompt(number, f"Beat {number}.")
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        open_play(page, chapter)
        page.locator("#turn-1").hover()
        page.locator("#turn-1").get_by_role("button", name="Copy").click()
        expect(page.locator("#turn-1").get_by_role("button", name="Copied")).to_be_visible()
        events = chapter.read()["events"]
        name = chapter.read()["agent_names"]["1"]
        told = f"1) Beat 1.\n\n{name}: {events[1]['text']}"
        assert page.evaluate("navigator.clipboard.readText()").replace("\r\n", "\n") == told

    def test_the_menu_closes_by_escape_and_leaves_the_focus_beside_it(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        summary = page.locator("#latest-acts summary")
        summary.click()
        link = page.get_by_role("link", name="Begin another story from here, after prompt 1")
        expect(link).to_be_visible()
        link.focus()
        page.keyboard.press("Escape")
        expect(link).to_be_hidden()
        expect(summary).to_be_focused()


class TestOnAPhone:
    def test_the_story_has_its_share_of_the_window_and_all_is_in_view(
        self, phone: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The tide turns. " * 60)
        open_play(phone, chapter)
        assert phone.evaluate(SHARE) >= 0.45
        expect(phone.locator("[data-send]")).to_be_in_viewport(ratio=1)
        expect(phone.locator(".button-end")).to_be_in_viewport(ratio=1)

    def test_with_the_keyboard_open_the_box_is_in_view(
        self, phone: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The tide turns. " * 60)
        open_play(phone, chapter)
        phone.locator("#prompt-text").tap()
        phone.set_viewport_size({"width": 390, "height": 320})
        expect(phone.locator("#prompt-text")).to_be_in_viewport(ratio=1)
        expect(phone.locator("[data-send]")).to_be_in_viewport(ratio=1)

    def test_with_the_keyboard_open_the_other_fields_are_in_view(
        self, phone: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "The tide turns. " * 60)
        open_play(phone, chapter)
        phone.locator("#search-link").tap()
        expect(phone.locator("#search-words")).to_be_focused()
        phone.set_viewport_size({"width": 390, "height": 320})
        expect(phone.locator("#search-words")).to_be_in_viewport(ratio=1)
        phone.set_viewport_size({"width": 390, "height": 664})
        phone.locator("[data-closes-search]").tap()
        phone.locator("#turn-1 summary").tap()
        phone.locator("[data-edits]:visible").tap()
        expect(phone.locator("#edited-text")).to_be_focused()
        phone.set_viewport_size({"width": 390, "height": 320})
        expect(phone.locator("#edited-text")).to_be_in_viewport(ratio=0.9)

    def test_the_reason_of_a_failure_is_in_view_wherever_one_reads(
        self, phone: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        for number in (1, 2):
            chapter.prompt(number, "The tide turns. " * 60)
        program.model.queue_faults("401", agent=3)
        open_play(phone, chapter)
        phone.locator("#prompt-text").fill("A beat that fails.")
        phone.locator("[data-send]").tap()
        why = phone.locator(".broken-why")
        expect(why).to_be_in_viewport(ratio=1)
        expect(phone.get_by_role("button", name="Retry")).to_be_in_viewport(ratio=1)
        phone.locator("#transcript").evaluate("one => { one.scrollTop = 0; }")
        expect(why).to_be_in_viewport(ratio=1)

    def test_a_tap_on_a_turn_shows_what_can_be_done_with_it(
        self, phone: Page, chapter: ChapterClient
    ) -> None:
        for number in (1, 2):
            chapter.prompt(number, f"Beat {number}.")
        open_play(phone, chapter)
        acts = phone.locator("#turn-1 .turn-acts")
        expect(acts).to_have_css("position", "absolute")
        phone.locator("#prompt-1").tap()
        expect(acts).to_have_css("position", "static")
        expect(acts).to_have_css("opacity", "1")


class TestOlder:
    @pytest.fixture(scope="class")
    def long(self, program: ScriptedProgram) -> str:
        """Return the id of a chapter with 200 prompts, of which Tab 2 shows about 50 at first."""
        command = [sys.executable, "-m", "testing.tab2_chapters", "400"]
        [built] = json.loads(program.processes.run("a long chapter", command).splitlines()[-1])
        return str(built).split("/")[2]

    def test_they_come_on_scrolling_up_and_stay_when_play_goes_on(
        self, page: Page, program: ScriptedProgram, long: str
    ) -> None:
        page.goto(f"/chapters/{long}/play")
        expect(page.locator(".fraction")).to_contain_text("/60,000")
        count = page.locator(".fraction").inner_text()
        first = page.evaluate(NUMBERS)[0]
        assert first > 60
        page.locator("#transcript").evaluate("one => { one.scrollTop = 0; }")
        expect(page.locator(f"#prompt-{first - 1}")).to_be_attached()
        # The reader stays at the words that were at the top.
        assert page.evaluate(FIRST_IN_VIEW)[0] in (first - 1, first)
        expect(page.locator(".fraction")).to_have_text(count)
        numbers = page.evaluate(NUMBERS)
        assert numbers == list(range(numbers[0], numbers[-1] + 1))

        place = page.evaluate(FIRST_IN_VIEW)
        prompt = {"agent_slot": 1, "user_text": "Knock."}
        page.request.post(f"/api/session/{long}/prompt", data=prompt)
        expect(page.locator("#transcript")).to_contain_text(f"{numbers[-1] + 1}) Knock.")
        after = page.evaluate(NUMBERS)
        assert after == list(range(numbers[0], numbers[-1] + 2))
        assert page.evaluate(FIRST_IN_VIEW) == place

    def test_a_found_turn_is_gone_to(self, page: Page, long: str) -> None:
        page.goto(f"/chapters/{long}/play")
        page.locator("#search-link").click()
        field = page.locator("#search-words")
        expect(field).to_be_focused()
        number = page.evaluate(NUMBERS)[3]
        field.fill(str(number))
        field.press("Enter")
        page.get_by_role("link", name=f"Go to prompt {number}").click()
        expect(page.locator(f"#prompt-{number}")).to_be_in_viewport()
        expect(page.locator(f"#turn-{number}")).to_be_focused()
        # One that the page does not have is shown in the whole transcript.
        field.fill("2")
        field.press("Enter")
        page.get_by_role("link", name="Go to prompt 2", exact=True).click()
        expect(page).to_have_url(re.compile(r"transcript\?prompt=2#prompt-2$"))
        expect(page.locator("#prompt-2")).to_be_in_viewport()


class TestKeys:
    def test_they_do_what_the_list_says(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        page.locator("#prompt-text").focus()
        page.keyboard.press("Escape")
        expect(page.locator("#transcript")).to_be_focused()
        expect(page.locator("#panel-2")).to_be_checked()
        page.keyboard.press("n")
        expect(page.locator("#panel-3")).to_be_checked()
        expect(page.locator("#transcript")).to_be_focused()
        page.keyboard.press("p")
        expect(page.locator("#panel-2")).to_be_checked()
        program.model.timing.tokens_per_second = HELD
        page.keyboard.press("r")
        expect(page.locator("[data-stop]")).to_be_visible()
        page.keyboard.press("s")
        expect(page.locator("#broken")).to_contain_text("You stopped this reply.")
        page.keyboard.press("/")
        expect(page.locator("#search-words")).to_be_focused()
        page.get_by_role("link", name="Close").click()
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("w")
        expect(page.locator("#prompt-text")).to_be_focused()

    def test_they_are_letters_while_one_types_and_rest_once_switched_off(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "Knock.")
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.press_sequentially("nprsw/?")
        expect(box).to_have_value("nprsw/?")
        expect(page.locator("#panel-2")).to_be_checked()
        expect(page.locator("#search-words")).to_have_count(0)
        assert chapter.read()["prompt_index"] == 1

        page.get_by_role("button", name="Keys").click()
        page.get_by_role("checkbox", name="Use these keys").uncheck()
        page.get_by_role("button", name="Close").click()
        page.reload()
        page.locator("#transcript").focus()
        page.keyboard.press("n")
        page.keyboard.press("?")
        expect(page.locator("#panel-2")).to_be_checked()
        expect(page.get_by_role("dialog", name="Keys")).to_be_hidden()
