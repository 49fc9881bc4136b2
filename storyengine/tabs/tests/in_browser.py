"""The running program and its pages, for tests with a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.chapter_client import ChapterClient
from testing.session_data import setup_of, synthetic_session

# Speeds of the model in tokens a second. At FAST a test never has to wait for a reply. At HELD a
# reply lasts two minutes, unless the test calls `let_reply_end`.
FAST, HELD = 400, 0.5

# The script selects the transcript, and returns the text that the browser would copy.
READ_SELECTION = """() => {
  const range = document.createRange();
  range.selectNodeContents(document.getElementById("transcript"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  return getSelection().toString();
}"""


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with run_scripted_program(first_token_ms=20, tokens_per_second=FAST) as running:
        yield running


@pytest.fixture
def page(browser: Browser, program: ScriptedProgram) -> Iterator[Page]:
    program.model.clear_faults()
    program.model.replies.reply_end = ""
    program.model.timing.tokens_per_second = FAST
    context = browser.new_context(base_url=program.url, viewport={"width": 1280, "height": 900})
    yield open_page(context)
    context.close()


@pytest.fixture
def draft(program: ScriptedProgram) -> ChapterClient:
    return ChapterClient(program.server)


@pytest.fixture
def chapter(program: ScriptedProgram) -> ChapterClient:
    client = ChapterClient(program.server)
    client.save_setup(setup_of(synthetic_session(10)))
    # The timeout is long, because the first lock has to wait until the worker has started.
    client.lock(seconds=60)
    return client


def open_world(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/world")


def open_play(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/play")


def open_chapter(page: Page, chapter: ChapterClient, query: str = "") -> None:
    page.goto(f"/chapters/{chapter.session_id}/chapter{query}")


def expect_turn(page: Page, number: int, words: str) -> None:
    """Wait until the page shows the prompt and its reply is complete.

    The test first waits for the prompt. Before the prompt is sent, the page also shows no running
    reply.
    """
    expect(page.locator("#transcript")).to_contain_text(f"{number}) {words}")
    expect_idle(page)


def expect_idle(page: Page) -> None:
    expect(page.locator("[data-send]")).to_be_visible()
    expect(page.locator("#running")).to_have_count(0)


def let_reply_end(page: Page, program: ScriptedProgram) -> None:
    """Make all replies fast, and wait until none is being written.

    A reply that is being written takes over the new speed before its next word.
    """
    program.model.timing.tokens_per_second = FAST
    expect_idle(page)
