"""The running program and its pages, for the tests that need a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from bench.chapter_client import ChapterClient
from bench.session_data import setup_of, synthetic_session
from storyengine.tests.browsing import browser as browser
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram, run_scripted_program

# Tokens a second: what nobody waits for, and what goes on for two minutes or until `let_reply_end`.
FAST, HELD = 400, 0.5

# What a copy of the transcript would hold.
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
    # The first one waits until the worker has started, too.
    client.lock(seconds=60)
    return client


def open_world(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/world")


def open_play(page: Page, chapter: ChapterClient) -> None:
    page.goto(f"/chapters/{chapter.session_id}/play")


def open_chapter(page: Page, chapter: ChapterClient, query: str = "") -> None:
    page.goto(f"/chapters/{chapter.session_id}/chapter{query}")


def expect_turn(page: Page, number: int, words: str) -> None:
    """The prompt was accepted, and its reply is over; a page looks idle before the one as well."""
    expect(page.locator("#transcript")).to_contain_text(f"{number}) {words}")
    expect_idle(page)


def expect_idle(page: Page) -> None:
    """What was being written when this page last heard of it is over."""
    expect(page.locator("[data-send]")).to_be_visible()
    expect(page.locator("#running")).to_have_count(0)


def let_reply_end(page: Page, program: ScriptedProgram) -> None:
    """What is being written, too: a call looks at the pace before each word."""
    program.model.timing.tokens_per_second = FAST
    expect_idle(page)
