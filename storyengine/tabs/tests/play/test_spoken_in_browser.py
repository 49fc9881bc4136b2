"""Tests of what a screen reader says, and of where the focus is, in a real browser."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import draft as draft
from storyengine.tabs.tests.in_browser import expect_idle, expect_turn, open_play, open_world
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.running import ScriptedProgram
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# The script keeps each text that a live region gets from now on.
LISTEN = """() => {
  window.heard = [];
  const live = "[aria-live=polite], [aria-live=assertive], [role=status], [role=alert], output";
  new MutationObserver((changes) => {
    for (const { target } of changes) {
      const at = (target.nodeType === 1 ? target : target.parentElement)?.closest(live);
      if (at && at.getAttribute("aria-live") !== "off") window.heard.push(at.textContent.trim());
    }
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
FOCUSED = """() => {
  const one = document.activeElement;
  return { isBody: one === document.body, words: one.innerText || one.value || "", id: one.id };
}"""

# The focus is moved shortly after a swap.
HAS_FOCUS = """(id) => {
  const one = document.activeElement;
  return one !== document.body && (!id || one.id === id);
}"""


def heard(page: Page) -> list[str]:
    return [one for one in page.evaluate("window.heard") if one]


def focused(page: Page) -> Any:
    return page.evaluate(FOCUSED)


def test_no_keystroke_is_spoken_and_a_count_is_spoken_after_a_pause_near_the_limit(
    page: Page, draft: ChapterClient
) -> None:
    page.clock.install()
    open_world(page, draft)
    expect(page.locator("#saved-state")).to_have_text("saved")
    page.evaluate(LISTEN)
    world = page.locator("#world-text")
    world.press_sequentially("The lamp is dark.")
    expect(page.locator("output[for=world-text]")).to_have_text("17/5,000")
    page.clock.run_for(1_000)
    expect(page.locator("#saved-state")).to_have_text("saved")
    assert heard(page) == []

    world.fill("x" * 4_600)
    world.press("End")
    world.press("y")
    assert heard(page) == []
    page.clock.run_for(1_000)
    expect(page.locator("#said")).to_have_text("4,601 of 5,000 characters")


def test_no_keystroke_of_a_prompt_is_spoken(page: Page, chapter: ChapterClient) -> None:
    open_play(page, chapter)
    page.evaluate(LISTEN)
    page.locator("#prompt-text").press_sequentially("The door opens.")
    expect(page.locator("output[for=prompt-text]")).to_have_text("15/5,000")
    assert heard(page) == []


def test_a_field_that_could_not_be_saved_is_spoken_and_so_is_that_it_is_saved_after_all(
    page: Page, draft: ChapterClient
) -> None:
    open_world(page, draft)
    page.route("**/world/save", lambda route: route.abort())
    page.locator("#world-text").fill("Through a bad line.")
    expect(page.locator("#said")).to_have_text("Not saved")
    page.unroute("**/world/save")
    expect(page.locator("#said")).to_have_text("Saved")


def test_after_a_swap_the_focus_is_on_what_follows(page: Page, chapter: ChapterClient) -> None:
    open_play(page, chapter)
    page.locator("#prompt-text").fill("The door opens.")
    page.locator("[data-send]").focus()
    page.keyboard.press("Enter")
    expect_turn(page, 1, "The door opens.")
    assert not focused(page)["isBody"]


def test_after_no_act_on_a_turn_the_focus_is_on_the_body(
    page: Page, program: ScriptedProgram, chapter: ChapterClient
) -> None:
    def press(selector: str) -> None:
        one = page.locator(selector).first
        one.evaluate("one => { one.closest('#play-upper').dataset.old = ''; }")
        one.focus()
        page.keyboard.press("Enter")
        # The part of the page with the button was drawn anew.
        expect(page.locator("[data-old]")).to_have_count(0)

    def send(words: str) -> None:
        page.locator("#prompt-text").fill(words)
        page.locator("#prompt-text").press("Enter")

    open_play(page, chapter)
    send("The door opens.")
    expect_turn(page, 1, "The door opens.")
    press("#another-reply")
    expect(page.locator(".attempts-said")).to_have_text("Reply 2 of 2")
    expect_idle(page)
    page.wait_for_function(HAS_FOCUS, arg="")
    press("#choose-earlier")
    expect(page.locator(".attempts-said")).to_have_text("Reply 1 of 2")
    page.wait_for_function(HAS_FOCUS, arg="choose-earlier")
    press("#all-replies")
    expect(page.locator("#all-replies")).to_have_attribute("aria-pressed", "true")
    page.wait_for_function(HAS_FOCUS, arg="all-replies")

    program.model.queue_faults("401", "401")
    send("Knock.")
    broken = page.locator("#broken")
    expect(broken).to_be_visible()
    press("#broken form button")
    expect(broken).to_be_visible()
    page.wait_for_function(HAS_FOCUS, arg="")
    press("[action$='set-aside'] button")
    expect(page.locator(".set-aside")).to_be_visible()
    page.wait_for_function(HAS_FOCUS, arg="")


def test_a_focused_element_that_a_swap_takes_away_hands_the_focus_on(
    page: Page, draft: ChapterClient
) -> None:
    open_world(page, draft)
    page.evaluate(
        """() => {
          const part = document.createElement("div");
          part.id = "part";
          part.innerHTML = "<p><button id='gone'>Gone</button></p>";
          document.getElementById("main").append(part);
          document.getElementById("gone").focus();
          part.innerHTML = "<p>Words</p><p><button>Next</button></p>";
          part.dispatchEvent(new CustomEvent("htmx:afterSettle", { bubbles: true }));
        }"""
    )
    assert focused(page)["words"] == "Next"
