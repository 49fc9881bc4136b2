"""Tests of editing the latest reply by hand in a real browser."""

import pytest
from playwright.sync_api import Dialog, Locator, Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import open_play
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from testing.chapter_client import ChapterClient
from testing.refusals import ANOTHER_WAS_CHOSEN

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture
def link(page: Page, chapter: ChapterClient) -> Locator:
    chapter.prompt(1, "Knock.")
    open_play(page, chapter)
    return page.get_by_role("link", name="Edit the reply to prompt 1")


@pytest.fixture
def field(page: Page, link: Locator) -> Locator:
    """Open the form for editing by the keyboard, and return its text field."""
    link.focus()
    page.keyboard.press("Enter")
    name = page.locator("#panel-1").get_attribute("data-name")
    found = page.get_by_role("textbox", name=f"Edit the reply of {name} to prompt 1")
    expect(found).to_be_focused()
    return found


def test_it_is_edited_by_the_keys_alone(
    page: Page, chapter: ChapterClient, link: Locator, field: Locator
) -> None:
    field.fill("I knock by hand.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.locator("#transcript .entry").last).to_contain_text(": I knock by hand.")
    expect(field).to_have_count(0)
    expect(link).to_be_focused()
    expect(page.locator("#announcement")).to_contain_text("Reply 2 of 2. ")
    assert chapter.read()["events"][-1]["text"] == "I knock by hand."


def test_cancel_leaves_the_reply_and_leads_back_to_the_link(
    page: Page, chapter: ChapterClient, link: Locator, field: Locator
) -> None:
    before = chapter.read()["events"]
    field.fill("Half a thought.")
    page.get_by_role("link", name="Cancel").click()
    expect(field).to_have_count(0)
    expect(link).to_be_focused()
    assert chapter.read()["events"] == before


def test_changed_words_stay_whatever_happens_beside_them(
    page: Page, chapter: ChapterClient, link: Locator, field: Locator
) -> None:
    field.fill("Half a thought.")
    link.click()
    expect(field).to_be_focused()
    page.get_by_role("button", name="Another reply to prompt 1").click()
    expect(page.locator(".choice")).to_contain_text("Reply 2 of 2")
    page.get_by_role("button", name="Save as the reply").click()
    expect(page.locator(".edit-cell .refusal")).to_contain_text(ANOTHER_WAS_CHOSEN)
    expect(field).to_have_value("Half a thought.")
    asked: list[str] = []

    def accept(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", accept)
    page.reload()
    assert asked == ["beforeunload"]
