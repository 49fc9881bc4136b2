"""What guides the narrator is changed beside the transcript, in a real browser."""

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import SCREENSHOTS

pytestmark = [pytest.mark.browser, pytest.mark.processes]

SIZES = {
    "1280": ViewportSize(width=1280, height=900),
    "390": ViewportSize(width=390, height=664),
}


def begin(page: Page) -> None:
    page.goto("/chapters/modes")
    page.get_by_role("button", name="Play The Last Ferry").click()
    page.get_by_label("Name").press("Enter")
    page.wait_for_url("**/play")


@pytest.mark.parametrize("width", SIZES)
def test_the_cells_save_themselves_beside_the_story(page: Page, width: str) -> None:
    page.set_viewport_size(SIZES[width])
    begin(page)
    if width == "390":
        # The opening is the first turn, so the player's view does not lie over the story.
        expect(page.locator(".view-fold")).not_to_have_attribute("open", "")
    summary = page.locator("#open-cells > summary")
    summary.focus()
    page.keyboard.press("Enter")
    page.get_by_label("Note", exact=True).fill("The fog never lifts.")
    expect(page.locator("#saved-state")).to_have_text("saved")
    page.get_by_role("button", name="Add an entry").click()
    expect(page.get_by_label("What the narrator reads")).to_be_visible()
    expect(page.get_by_label("Note", exact=True)).to_have_value("The fog never lifts.")
    page.get_by_label("What the narrator reads").fill("The river takes one a year.")
    page.get_by_label("Keywords, with commas between").fill("river, water")
    expect(page.locator("#saved-state")).to_have_text("saved")
    page.locator("#lore-0").scroll_into_view_if_needed()
    page.screenshot(path=SCREENSHOTS / f"guidance-{width}.png")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    summary.click()
    page.get_by_label("Your prompt").fill("I look at the water.")
    page.get_by_role("button", name="Send").click()
    expect(page.locator("#transcript")).to_contain_text("I look at the water.")
    # The cells are no part of what a turn renews.
    summary.click()
    expect(page.get_by_label("What the narrator reads")).to_have_value(
        "The river takes one a year."
    )
    page.screenshot(path=SCREENSHOTS / f"guidance-played-{width}.png")


def test_two_windows_on_one_note_ask_which_stays(page: Page) -> None:
    begin(page)
    other = page.context.new_page()
    other.goto(page.url)
    for one in (page, other):
        one.locator("#open-cells > summary").click()
    page.get_by_label("Note", exact=True).fill("Mine.")
    expect(page.locator("#saved-state")).to_have_text("saved")
    other.get_by_label("Note", exact=True).fill("Theirs.")
    other.get_by_role("button", name="Take the other").click()
    expect(other.get_by_label("Note", exact=True)).to_have_value("Mine.")
    expect(other.locator("#saved-state")).to_have_text("saved")
