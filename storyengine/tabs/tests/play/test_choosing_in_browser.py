"""Tests of several replies to one prompt, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import expect_idle, open_play
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def write_again(page: Page, count: int) -> None:
    """Ask for another reply. Wait until there are `count` replies and the new one is complete."""
    page.locator("#another-reply").click()
    expect(page.locator(".choice")).to_contain_text(f"Reply {count} of {count}")
    expect_idle(page)


def test_one_is_chosen_by_the_keys_alone(page: Page, chapter: ChapterClient) -> None:
    chapter.prompt(1, "Knock.")
    open_play(page, chapter)
    for count in (2, 3):
        write_again(page, count)
    before, after = page.locator("#choose-earlier"), page.locator("#choose-later")
    expect(after).to_have_attribute("aria-disabled", "true")
    before.focus()
    for at in (2, 1, 1):
        page.keyboard.press("Enter")
        expect(page.locator(".choice")).to_contain_text(f"Reply {at} of 3")
        expect(page.locator("#announcement")).to_contain_text(f"Reply {at} of 3. ")
        # Each press replaces the play area of the page. The new button has the focus, as the old
        # button had.
        expect(before).to_be_focused()
        # Wait until htmx has prepared the new form. Until then, the browser would send the form
        # without htmx and load a new page.
        expect(page.locator("#play-upper")).not_to_have_class(re.compile("htmx-added"))
    told = [event["text"] for event in chapter.read()["events"]]
    assert told[0] == "Knock."
    assert len(told) == 2
    expect(page.locator("#transcript .entry").last).to_contain_text(told[1])


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_choice_of_the_length_fits_into_the_window(
    page: Page, chapter: ChapterClient, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 664})
    open_play(page, chapter)
    expect(page.get_by_label("Length of replies")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    before = page.locator(".prompt-small").bounding_box()
    assert before is not None
    assert before["height"] < 40
