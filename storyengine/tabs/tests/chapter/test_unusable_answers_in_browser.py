"""Tests in a real browser of pages after answers of agents 0, 8 and 9 that cannot be used."""

import re
from collections.abc import Sequence

import pytest
from playwright.sync_api import Locator, Page, expect

from storyengine.tabs.tests.chapter.test_unusable_answers import (
    NO_PROSE,
    UNUSABLE_DELTAS,
    UNUSABLE_LOCKS,
)
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import draft as draft
from storyengine.tabs.tests.in_browser import open_chapter, open_play, open_world
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient
from testing.refusals import DRAFTS_UNCHANGED, NOT_IN_FORM, TOLD_NO_PROSE
from testing.session_data import setup_of, synthetic_session

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# What a check says, and no writer would.
RAW = re.compile(r"[{}\[\]]|must be|JSON|is missing|DONE")


def answer_instead(program: ScriptedProgram, agent: int, texts: Sequence[str]) -> None:
    program.model.replies.instead[agent] = list(texts)


def expect_told(message: Locator, *words: str) -> None:
    """Check that the message says these words, that what the check said is one click away, and that
    Retry stands beside it."""
    expect(message).to_be_visible()
    for said in words:
        expect(message).to_contain_text(said)
    assert not RAW.search(message.inner_text())
    details = message.locator("details", has_text="What the check said")
    exact = details.locator("p")
    expect(exact).to_be_hidden()
    details.locator("summary").click()
    expect(exact).to_be_visible()
    assert exact.inner_text()
    expect(message.get_by_role("button", name="Retry")).to_be_in_viewport()


def retry(message: Locator) -> None:
    """Press Retry, and wait until the page no longer shows this message. The program may have
    failed again by then, so that the page shows the next message."""
    message.evaluate("message => { message.dataset.pressed = 'yes' }")
    message.get_by_role("button", name="Retry").click()
    expect(message.page.locator("[data-pressed=yes]")).to_have_count(0)


def test_a_lock(page: Page, program: ScriptedProgram, draft: ChapterClient) -> None:
    draft.save_setup(setup_of(synthetic_session(10)))
    # Each answer is repaired once, by an answer that is as bad.
    answer_instead(program, 0, [bad for bad in UNUSABLE_LOCKS for _ in range(2)])
    open_world(page, draft)
    page.get_by_role("link", name="Start chapter").click()
    page.locator("dialog[open]").get_by_role("button", name="Lock and play").click()
    message = page.get_by_role("alert").filter(has_text="The chapter could not be started.")
    for left in range(len(UNUSABLE_LOCKS), 0, -1):
        expect_told(message, NOT_IN_FORM, "everything you wrote is there")
        assert len(program.model.replies.instead[0]) == 2 * (left - 1)
        message.get_by_role("button", name="Retry").click()
        page.wait_for_url("**/play")
    expect(page.locator("#prompt-text")).to_be_visible()


def test_memory(page: Page, program: ScriptedProgram, chapter: ChapterClient) -> None:
    chapter.prompt(1, "The stairs are wet.")
    answer_instead(program, 8, [bad for bad in UNUSABLE_DELTAS for _ in range(2)])
    open_play(page, chapter)
    page.locator("[data-opens=end-dialog]").click()
    page.locator("#end-dialog").get_by_role("button", name="End Chapter").click()
    message = page.locator(".message-error", has_text="The chapter could not be ended.")
    for _ in UNUSABLE_DELTAS:
        expect_told(message, NOT_IN_FORM, "nothing is lost")
        retry(message)
    expect(page.locator("#chapter-state")).to_have_text("Ended")


def test_a_narrative(page: Page, program: ScriptedProgram, chapter: ChapterClient) -> None:
    chapter.prompt(1, "The stairs are wet.")
    chapter.end(seconds=30)
    answer_instead(program, 9, NO_PROSE)
    open_chapter(page, chapter)
    page.get_by_role("button", name="Build Narrative").click()
    message = page.locator(".message-error", has_text="The narrative was not finished.")
    for _ in NO_PROSE:
        expect_told(message, TOLD_NO_PROSE, DRAFTS_UNCHANGED)
        retry(message)
    expect(page.locator("#draft-text")).not_to_be_empty()
