"""The first minute in a browser: from the card of a starter to the answer of the first prompt."""

import pytest
from playwright.sync_api import Page, expect

from sessions.chapter.starters import all_starters
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import expect_turn
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program

pytestmark = [pytest.mark.browser, pytest.mark.processes]

STARTER = all_starters()[0]


def open_starter(page: Page) -> None:
    page.goto("/")
    # On a home page with chapters the cards are behind a heading.
    if page.locator(".more-starters").count():
        page.locator(".more-starters > summary").click()
    # The button of the card covers the whole card, so a click on the title goes to the button.
    page.locator(".starter").get_by_role("heading", name=STARTER.title).click(force=True)
    page.wait_for_url("**/play")


def test_one_click_on_a_card_leads_to_the_top_of_what_was_played(page: Page) -> None:
    open_starter(page)
    expect(page.locator("#transcript")).to_contain_text(STARTER.turns[-1].reply.splitlines()[-1])
    expect(page.get_by_text(STARTER.premise)).to_be_in_viewport(ratio=1)
    assert page.locator("#transcript").evaluate("element => element.scrollTop") == 0


def test_the_suggestion_is_announced_until_one_is_there(page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 700})
    open_starter(page)
    announced = page.get_by_role("link", name="A prompt is suggested at the end")
    expect(announced).to_be_visible()
    announced.click()
    expect(page.locator("#suggested-words")).to_be_in_viewport()
    transcript = page.locator("#transcript")
    transcript.evaluate("element => (element.scrollTop = element.scrollHeight)")
    expect(announced).to_be_hidden()
    transcript.evaluate("element => (element.scrollTop = 0)")
    expect(announced).to_be_visible()


def test_on_a_phone_the_announced_suggestion_leaves_room_for_all(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 664})
    open_starter(page)
    # The models of the test are not known, and the page says so above all else.
    said_above = page.locator(".model-note").bounding_box()
    end = page.locator(".button-end").bounding_box()
    transcript = page.locator("#transcript").bounding_box()
    assert said_above is not None
    assert end is not None
    assert transcript is not None
    expect(page.get_by_role("link", name="A prompt is suggested at the end")).to_be_visible()
    assert end["y"] + end["height"] - said_above["height"] <= 664
    assert transcript["height"] >= 0.45 * 664


def test_who_writes_without_scrolling_sees_the_own_words_and_the_reply(page: Page) -> None:
    open_starter(page)
    page.locator("#prompt-text").fill("The lamp goes out.")
    page.locator("#prompt-text").press("Enter")
    expect_turn(page, 4, "The lamp goes out.")
    expect(page.get_by_text("4) The lamp goes out.")).to_be_in_viewport()


def test_change_it_first_opens_tab_1(page: Page) -> None:
    page.goto("/")
    if page.locator(".more-starters").count():
        page.locator(".more-starters > summary").click()
    page.get_by_role("button", name=f"Change it first: {STARTER.title}").click()
    page.wait_for_url("**/world")
    expect(page.locator("#world-text")).to_have_value(STARTER.world)


@pytest.mark.parametrize("width", [1280, 390, 320])
def test_the_cards_fit_into_the_window(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.goto("/")
    assert page.evaluate("document.documentElement.scrollWidth") == width
