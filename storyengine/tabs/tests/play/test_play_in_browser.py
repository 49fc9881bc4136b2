"""Tests of Tab 2's scripts in a real browser."""

import re
from typing import cast

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from storyengine.tabs.tests.in_browser import (
    FAST,
    HELD,
    READ_SELECTION,
    expect_idle,
    expect_turn,
    let_reply_end,
    open_play,
)
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import draft as draft
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

PROMPTS = "**/play/prompt"

# The script scrolls the transcript up. The page notices this in its next frame. A person could do
# nothing else before this frame.
SCROLL_UP = """() => { document.getElementById("transcript").scrollTop = 40; }"""

# The script waits for two frames, because the page's observers run only after the first frame's
# callbacks.
NEXT_FRAME = """() => new Promise(resolve => {
  requestAnimationFrame(() => requestAnimationFrame(resolve));
})"""

SHOW_NOTICE = """element => {
  element.innerHTML = '<p class="quiet">A notice.</p>';
}"""

IS_AS_HIGH = "height => document.documentElement.scrollHeight === height"


# ROW returns how far the row of panels is scrolled. NOTE_ROW_AT_SWAP stores this number when the
# first answer is put into the page.
ROW = "() => document.getElementById('prompt-panels').scrollLeft"
NOTE_ROW_AT_SWAP = """() => document.addEventListener("htmx:afterSwap", () => {
  window.rowAtSwap ??= document.getElementById("prompt-panels").scrollLeft;
})"""


class TestPrompt:
    def test_enter_sends_and_shift_enter_breaks_the_line(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("One.")
        box.press("Shift+Enter")
        box.press_sequentially("Two.")
        # In an input method, such as one for Japanese, Enter chooses a word. It must not send the
        # prompt.
        box.dispatch_event("keydown", {"key": "Enter", "isComposing": True})
        expect(box).to_have_value("One.\nTwo.")
        box.press("Enter")
        expect_turn(page, 1, "One.\nTwo.")
        expect(box).to_have_value("")
        expect(box).to_be_focused()

    def test_a_prompt_that_is_too_long_stays_in_the_box_and_is_not_sent(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box, said = page.locator("#prompt-text"), page.locator("#prompt-text + .refusal")
        box.fill("x" * 6000 + " and the rest.")
        expect(said).to_contain_text("1,014 characters too many")
        box.press("Enter")
        expect(box).to_be_focused()
        page.reload()
        expect(box).to_have_value("x" * 6000 + " and the rest.")
        expect(said).to_contain_text("1,014 characters too many")
        box.fill("Somebody knocks.")
        expect(said).to_be_empty()
        box.press("Enter")
        expect_turn(page, 1, "Somebody knocks.")

    def test_unsent_words_survive_a_reload_and_sent_ones_do_not_come_back(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("Not sent yet.")
        page.reload()
        expect(box).to_have_value("Not sent yet.")
        box.press("Enter")
        expect_turn(page, 1, "Not sent yet.")
        page.reload()
        expect(box).to_have_value("")

    def test_words_that_could_not_be_sent_stay_and_count_once(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = send_in_vain(page, "Sent twice.")
        expect(box).to_have_value("Sent twice.")
        expect(page.locator("#prompt-notice")).to_be_empty()
        page.unroute(PROMPTS)
        # The page sends the words again under the same key. The program makes no second attempt,
        # even if the first reply is still being written.
        page.locator("[data-send]").click()
        expect(box).to_have_value("")
        expect_turn(page, 1, "Sent twice.")
        assert chapter.read()["prompt_index"] == 1

    def test_the_words_of_a_broken_turn_can_be_put_back(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        program.model.queue_faults("401", agent=1)
        open_play(page, chapter)
        box = send(page, "A beat that fails.")
        expect(page.locator("#broken")).to_be_visible()
        box.fill("Typed since.")
        page.get_by_text("Put the words back").click()
        expect(box).to_have_value("A beat that fails.\n\nTyped since.")
        expect(page.locator("#panel-1")).to_be_checked()

    def test_enter_while_a_reply_is_written_says_that_the_words_wait(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        box, notice = send_slowly(page, program, chapter), page.locator("#prompt-notice")
        expect(box).to_have_value("")
        box.press("Enter")
        expect(notice).to_be_empty()
        box.fill("Typed meanwhile.")
        box.press("Enter")
        expect(notice).to_contain_text("still being written")
        expect(box).to_have_value("Typed meanwhile.")
        let_reply_end(page, program)
        expect(notice).to_be_empty()
        expect(box).to_have_value("Typed meanwhile.")

    def test_a_reply_that_is_stopped_moves_nobody_under_words_that_are_typed(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        box = send_slowly(page, program, chapter)
        box.fill("For the next one.")
        with page.expect_response("**/play/panel"):
            page.get_by_role("button", name="Stop").click()
        expect(page.locator("#broken")).to_contain_text("Slowly.")
        expect(page.locator("#panel-2")).to_be_checked()
        expect(box).to_have_value("For the next one.")
        page.reload()
        expect(page.locator("#panel-2")).to_be_checked()
        expect(box).to_have_value("For the next one.")
        page.get_by_role("button", name="Go on without it").click()
        expect(page.locator("#broken")).to_have_count(0)
        expect(page.locator("#panel-2")).to_be_checked()

    @pytest.mark.parametrize("way_out", ["Keep this text", "Retry"])
    def test_words_typed_under_a_broken_reply_do_not_hold_up_the_rotation(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient, way_out: str
    ) -> None:
        box = send_slowly(page, program, chapter)
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#panel-1")).to_be_checked()
        box.fill("For whoever comes next.")
        program.model.timing.tokens_per_second = FAST
        page.get_by_role("button", name=way_out).click()
        expect(page.locator("#broken")).to_have_count(0)
        expect(page.locator("#panel-2")).to_be_checked()
        expect_idle(page)
        page.reload()
        expect(page.locator("#panel-2")).to_be_checked()
        expect(box).to_have_value("For whoever comes next.")

    def test_a_look_at_the_prompt_opens_beside_it_and_leaves_the_words_to_be_sent(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = page.locator("#prompt-text")
        box.fill("The door opens.")
        with page.context.expect_page() as opened:
            # A script clicks the button. Some browsers do not give a clicked button the focus, and
            # a script's click does not either.
            page.get_by_role("button", name="What they will know").evaluate("one => one.click()")
        sent = opened.value.locator(".as-sent", has_text="The door opens.")
        expect(sent).to_have_count(1)
        expect(opened.value.get_by_role("link", name="Back to play")).to_be_visible()
        opened.value.close()
        expect(box).to_have_value("The door opens.")
        box.press("Enter")
        expect_turn(page, 1, "The door opens.")
        expect(box).to_have_value("")


class TestUnsentWords:
    def test_each_window_keeps_its_own(self, page: Page, chapter: ChapterClient) -> None:
        open_play(page, chapter)
        page.locator("#prompt-text").fill("Half a thought.")
        other = open_page(page.context)
        open_play(other, chapter)
        send(other, "Another thought.")
        expect_turn(other, 1, "Another thought.")
        expect(other.locator("#prompt-text")).to_have_value("")
        page.reload()
        expect(page.locator("#prompt-text")).to_have_value("Half a thought.")
        page.locator("#prompt-text").press("Enter")
        expect_turn(page, 2, "Half a thought.")
        for window in (page, other):
            window.reload()
            expect(window.locator("#prompt-text")).to_have_value("")

    def test_those_of_a_closed_window_come_back_in_the_next(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        page.locator("#prompt-text").fill("Half a thought.")
        page.close()
        later = open_page(page.context)
        open_play(later, chapter)
        expect(later.locator("#prompt-text")).to_have_value("Half a thought.")

    def test_what_was_typed_after_a_prompt_that_arrived_unnoticed_stays(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        open_play(page, chapter)
        box = send_in_vain(page, "Sent.")
        box.press("Control+End")
        box.press_sequentially(" And then")
        page.reload()
        expect_turn(page, 1, "Sent.")
        expect(box).to_have_value("And then")


class TestTranscript:
    def test_a_copy_is_the_plain_text_of_the_download(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        chapter.prompt(1, "First.\n\n\n\n\n\nAfter blank lines.")
        for number in range(2, 9):
            chapter.prompt(number % 3 + 1, f"Beat <{number}> & more.")
        chapter.wait_for_memory(7, seconds=30)
        open_play(page, chapter)
        copied = page.evaluate(READ_SELECTION)
        saved = page.request.get(f"/chapters/{chapter.session_id}/downloads/transcript").text()
        assert copied.strip() == saved.strip()
        assert "\n\n-------------\n\n8) Beat <8> & more." in copied

    def test_only_a_reader_at_the_end_is_taken_along(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        # Four prompts are too few for a summary, so the page gets no news about memory.
        for number in range(1, 5):
            chapter.prompt(1, f"Beat {number}. " + "The tide turns. " * 60)
        open_play(page, chapter)
        assert distance_from_end(page) < 5

        send(page, "Follow.")
        expect_turn(page, 5, "Follow.")
        assert distance_from_end(page) < 5

        program.model.timing.tokens_per_second = HELD
        page.locator("#panel-1").check()
        send(page, "Stay.")
        expect(page.locator("#transcript")).to_contain_text("6) Stay.")
        expect(page.locator("#reply-text")).not_to_be_empty()
        page.evaluate(SCROLL_UP)
        page.evaluate(NEXT_FRAME)
        let_reply_end(page, program)
        assert distance_from_top(page) == 40


class TestPlayArea:
    @pytest.mark.parametrize(("width", "height"), [(1280, 900), (1366, 768), (390, 844)])
    def test_all_of_it_fits_into_the_window(
        self, page: Page, chapter: ChapterClient, width: int, height: int
    ) -> None:
        chapter.prompt(1, "Beat. " + "The tide turns. " * 200)
        page.set_viewport_size({"width": width, "height": height})
        open_play(page, chapter)
        expect(page.locator(".button-end")).to_be_in_viewport(ratio=1)
        page.locator("#prompt-text").fill("A line.\n" * 4)
        page.locator(".notices").evaluate(SHOW_NOTICE)
        expect(page.get_by_text("A notice.")).to_be_visible()
        expect(page.locator(".button-end")).to_be_in_viewport(ratio=1)
        page.wait_for_function(IS_AS_HIGH, arg=height)

    def test_the_panel_that_comes_next_is_in_view_on_a_phone_from_the_first_moment(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        page.set_viewport_size({"width": 390, "height": 844})
        open_play(page, chapter)
        with page.expect_response("**/play/panel"):
            page.locator("#panel-5").check()
        page.reload()
        expect(page.locator(".pill:has(#panel-5:checked)")).to_be_in_viewport(ratio=1)
        page.evaluate(NOTE_ROW_AT_SWAP)
        send(page, "Knock.")
        expect_turn(page, 1, "Knock.")
        chosen = page.locator(".pill:has(#panel-6:checked)")
        expect(chosen).to_be_in_viewport(ratio=1)
        assert page.evaluate("rowAtSwap") == page.evaluate(ROW)

    def test_a_wait_for_the_first_word_is_counted_for_the_eye_only(
        self, page: Page, program: ScriptedProgram, chapter: ChapterClient
    ) -> None:
        program.model.queue_faults("hang", agent=1)
        open_play(page, chapter)
        send(page, "Think about this.")
        waited = page.locator(".reply-wait .waited")
        expect(waited).to_have_text(re.compile(r"^\d+ s$"))
        expect(waited).to_have_attribute("aria-hidden", "true")
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#broken")).to_be_visible()
        expect(waited).to_have_count(0)


def send_slowly(page: Page, program: ScriptedProgram, chapter: ChapterClient) -> Locator:
    """Send a prompt whose reply is slow. Return the text field for prompts when the first words of
    the reply are shown."""
    program.model.timing.tokens_per_second = HELD
    open_play(page, chapter)
    box = send(page, "Slowly.")
    expect(page.locator("#reply-text")).not_to_be_empty()
    return box


def send(page: Page, words: str) -> Locator:
    """Send a prompt, and return the text field for prompts."""
    box = page.locator("#prompt-text")
    box.fill(words)
    box.press("Enter")
    return box


def send_in_vain(page: Page, words: str) -> Locator:
    """Send a prompt whose answer is lost on its way to the page, and return the text field for
    prompts."""
    page.route(PROMPTS, lose_the_answer)
    box = send(page, words)
    expect(page.locator("#prompt-form > .refusal")).to_contain_text("does not answer")
    return box


def lose_the_answer(route: Route) -> None:
    route.fetch()
    route.abort()


def distance_from_top(page: Page) -> float:
    return cast(float, page.locator("#transcript").evaluate("element => element.scrollTop"))


def distance_from_end(page: Page) -> float:
    return cast(
        float,
        page.locator("#transcript").evaluate(
            "element => element.scrollHeight - element.scrollTop - element.clientHeight"
        ),
    )
