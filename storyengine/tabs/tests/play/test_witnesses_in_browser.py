"""Tests of the choice of a prompt's witnesses, in a real browser."""

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import READ_SELECTION, expect_turn, open_play
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]


def told(names: list[str]) -> str:
    return ", ".join(names[:-1]) + f" and {names[-1]}"


def test_a_prompt_for_some_is_sent_by_the_keys_alone(page: Page, chapter: ChapterClient) -> None:
    names = chapter.read()["agent_names"]
    others = told([name for slot, name in names.items() if slot != "3"])
    open_play(page, chapter)
    asked = page.locator(".witnesses summary")
    expect(asked).to_have_text("Everyone sees it")
    page.locator("#prompt-text").fill("Whisper.")
    asked.focus()
    page.keyboard.press("Enter")
    tick = page.get_by_role("checkbox", name=names["3"])
    tick.focus()
    page.keyboard.press("Space")
    expect(asked).to_have_text(f"Only {others} see it")
    # The browser keeps the words and the ticks when the page is loaded again.
    page.reload()
    expect(page.locator("#prompt-text")).to_have_value("Whisper.")
    expect(asked).to_have_text(f"Only {others} see it")
    page.locator("#prompt-text").press("Enter")
    expect_turn(page, 1, "Whisper.")
    turn = page.request.get(f"/api/session/{chapter.session_id}/turns/1").json()
    [attempt] = turn["attempts"]
    assert attempt["witnesses"] == [slot for slot in sorted(map(int, names)) if slot != 3]
    expect(page.locator(".perceived").first).to_have_attribute(
        "data-by", others.replace(" and ", ", ")
    )
    # Everybody is a witness of the next prompt again, and a copied transcript names no witnesses.
    expect(asked).to_have_text("Everyone sees it")
    saved = page.request.get(f"/chapters/{chapter.session_id}/downloads/transcript").text()
    assert page.evaluate(READ_SELECTION).strip() == saved.strip()


def test_the_box_of_whoever_answers_stays_ticked(page: Page, chapter: ChapterClient) -> None:
    names = chapter.read()["agent_names"]
    open_play(page, chapter)
    asked = page.locator(".witnesses summary")
    asked.click()
    boxes = {slot: page.get_by_role("checkbox", name=names[slot]) for slot in ("1", "3")}
    expect(boxes["1"]).to_be_checked()
    expect(boxes["1"]).to_be_disabled()
    boxes["3"].uncheck()
    others = told([name for slot, name in names.items() if slot != "3"])
    expect(asked).to_have_text(f"Only {others} see it")
    # Once the prompt goes to the third character, their box is ticked, and the first one's is free.
    page.get_by_role("radio", name=names["3"]).check(force=True)
    expect(boxes["3"]).to_be_checked()
    expect(boxes["3"]).to_be_disabled()
    expect(asked).to_have_text("Everyone sees it")
    boxes["1"].uncheck()
    box = page.locator("#prompt-text")
    box.fill("Whisper.")
    box.press("Enter")
    expect_turn(page, 1, "Whisper.")
    turn = page.request.get(f"/api/session/{chapter.session_id}/turns/1").json()
    assert turn["attempts"][0]["witnesses"] == [
        slot for slot in sorted(map(int, names)) if slot != 1
    ]
