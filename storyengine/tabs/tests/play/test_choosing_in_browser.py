"""Tests of several replies to one prompt, in a real browser."""

import re

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import READ_SELECTION, expect_idle, expect_turn, open_play
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.running import ScriptedProgram
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


def test_another_reply_is_marked_and_not_copied(page: Page, chapter: ChapterClient) -> None:
    chapter.prompt(1, "Knock.")
    open_play(page, chapter)
    switch = page.get_by_role("button", name="All replies", exact=True)
    expect(switch).to_have_attribute("aria-pressed", "false")
    switch.focus()
    page.keyboard.press("Enter")
    # The switch shows its state by a sign, which is not a part of its accessible name.
    expect(switch).to_have_attribute("aria-pressed", "true")
    expect(switch).to_be_focused()
    write_again(page, 2)
    mark = page.get_by_role("img", name="1 of 2 · not chosen.")
    expect(mark).to_be_visible()
    drawn = mark.evaluate("one => getComputedStyle(one, '::before').content")
    assert drawn == '"1 of 2 · not chosen"'
    saved = page.request.get(f"/chapters/{chapter.session_id}/downloads/transcript").text()
    assert page.evaluate(READ_SELECTION).strip() == saved.strip()
    # The button beside it sends the form of the arrows.
    page.get_by_role("button", name="Use reply 1 of 2").click()
    expect(page.locator(".choice")).to_contain_text("Reply 1 of 2")
    expect(page.get_by_role("img", name="2 of 2 · not chosen.")).to_be_visible()


def test_the_gm_is_told_where_the_model_went_on_as_somebody_else(
    page: Page, chapter: ChapterClient, program: ScriptedProgram
) -> None:
    open_play(page, chapter)
    name = page.locator("#panel-2").get_attribute("data-name")
    program.model.replies.reply_end = f"**{name}:** I stay."
    page.locator("#prompt-text").fill("Knock.")
    page.locator("#prompt-text").press("Enter")
    expect_turn(page, 1, "Knock.")
    notice = page.locator("#reply-end")
    expect(notice).to_contain_text(f"The model went on as {name}, so the reply to prompt 1 ends")
    expect(page.locator("#transcript")).not_to_contain_text("I stay.")
    program.model.replies.reply_end = ""
    write_again(page, 2)
    expect(notice).to_have_count(0)
    page.get_by_role("button", name="Choose the reply before").click()
    expect(notice).to_be_visible()


def test_the_length_of_replies_is_saved_when_it_is_chosen(
    page: Page, chapter: ChapterClient
) -> None:
    open_play(page, chapter)
    choice = page.get_by_label("Length of replies")
    expect(choice).to_have_value("normal")
    page.locator("#prompt-text").fill("Half a beat.")
    choice.select_option("long")
    expect(page.locator("#saved-state")).to_have_text("saved")
    assert chapter.read()["reply_length"] == "long"
    expect(page.locator("#prompt-text")).to_have_value("Half a beat.")
    page.reload()
    expect(choice).to_have_value("long")


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
