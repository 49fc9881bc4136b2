"""Tests in a real browser of lost connections, and of two windows that show one chapter."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tabs.tests.in_browser import FAST, expect_turn, open_play
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import open_page
from storyengine.tests.relay import Relay, relay_to
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# The longest time in which a page has to say that the connection is lost.
TOLD_WITHIN_MS = 10_000
# At this speed a reply lasts a minute, and a word comes every half a second.
SLOW = 2


@pytest.fixture
def relay(program: ScriptedProgram) -> Iterator[Relay]:
    with relay_to(program.server.host, program.server.port) as running:
        yield running


@pytest.fixture
def far(browser: Browser, program: ScriptedProgram, relay: Relay) -> Iterator[Page]:
    """Yield a page of a browser that reaches the program through the relay."""
    program.model.clear_faults()
    context = browser.new_context(base_url=relay.url, viewport={"width": 1280, "height": 900})
    yield open_page(context)
    program.model.timing.tokens_per_second = FAST
    context.close()


def begin_slow_reply(page: Page, program: ScriptedProgram) -> None:
    program.model.timing.tokens_per_second = SLOW
    page.locator("#prompt-text").fill("The lamp goes out.")
    page.locator("#prompt-text").press("Enter")
    expect(page.locator("#reply-text")).not_to_be_empty()


class TestLostConnection:
    def test_the_page_says_so_within_ten_seconds_and_takes_it_back_by_itself(
        self, far: Page, program: ScriptedProgram, chapter: ChapterClient, relay: Relay
    ) -> None:
        open_play(far, chapter)
        begin_slow_reply(far, program)
        told = far.locator("#page-refusal")
        expect(told).to_be_empty()
        relay.lose()
        expect(told).to_contain_text("does not answer", timeout=TOLD_WITHIN_MS)
        before = far.locator("#reply-text").inner_text()
        relay.restore()
        expect(told).to_be_empty()
        # The stream begins anew, with everything that was written meanwhile.
        expect(far.locator("#reply-text")).to_contain_text(before)
        expect(far.locator("#reply-text")).not_to_have_text(before)
        program.model.timing.tokens_per_second = FAST
        expect_turn(far, 1, "The lamp goes out.")

    def test_a_reply_that_was_finished_meanwhile_is_there(
        self, far: Page, program: ScriptedProgram, chapter: ChapterClient, relay: Relay
    ) -> None:
        open_play(far, chapter)
        begin_slow_reply(far, program)
        relay.lose()
        program.model.timing.tokens_per_second = FAST
        expect(far.locator("#page-refusal")).to_contain_text("does not answer")
        relay.restore()
        expect_turn(far, 1, "The lamp goes out.")
        expect(far.locator("#page-refusal")).to_be_empty()


class TestSecondWindow:
    def test_an_idle_one_shows_a_turn_of_the_first(
        self, page: Page, chapter: ChapterClient
    ) -> None:
        second = open_page(page.context)
        open_play(second, chapter)
        second.locator("#prompt-text").fill("Words that are not sent yet.")
        open_play(page, chapter)
        page.locator("#prompt-text").fill("The stairs are wet.")
        page.locator("#prompt-text").press("Enter")
        expect_turn(page, 1, "The stairs are wet.")
        expect_turn(second, 1, "The stairs are wet.")
        reply = page.locator("#transcript .entry").last.inner_text()
        expect(second.locator("#transcript")).to_contain_text(reply)
        expect(second.locator("#prompt-text")).to_have_value("Words that are not sent yet.")
        expect(second.locator("#meter")).to_contain_text("1 prompt")
