"""Tests of forking a chapter in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import READ_SELECTION, open_play
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def test_a_prompt_is_forked_by_the_keys_alone(page: Page, chapter: ChapterClient) -> None:
    for slot, words in enumerate(("Knock.", "Enter.", "Sit down."), start=1):
        chapter.prompt(slot, words)
    open_play(page, chapter)
    link = page.get_by_role("link", name="Begin another story from here, after prompt 2")
    # The words of the link are not in a copied transcript.
    saved = page.request.get(f"/chapters/{chapter.session_id}/downloads/transcript").text()
    assert page.evaluate(READ_SELECTION).strip() == saved.strip()
    link.focus()
    page.keyboard.press("Enter")
    expect(
        page.get_by_role("heading", name="Begin another story from here, after prompt 2?")
    ).to_be_visible()
    expect(page.locator("#main")).to_contain_text("1 later prompt")
    page.get_by_role("button", name="Begin another story from here").focus()
    page.keyboard.press("Enter")
    transcript = page.locator("#transcript")
    expect(transcript).to_contain_text("2) Enter.")
    expect(transcript).not_to_contain_text("Sit down.")
    origin = page.locator(".header-origin")
    expect(origin).to_contain_text("at prompt 2")
    # The next prompt is a prompt of the fork. It is not in the origin.
    page.locator("#prompt-text").fill("Leave.")
    page.locator("#prompt-text").press("Enter")
    expect(transcript).to_contain_text("3) Leave.")
    origin.get_by_role("link").click()
    expect(transcript).to_contain_text("3) Sit down.")
    expect(transcript).not_to_contain_text("Leave.")
