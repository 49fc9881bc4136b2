"""Tab 1 open in two windows of a real browser, while a program writes to it as well."""

from typing import Any, cast

import pytest
from playwright.sync_api import Page, expect

from bench.chapter_client import ChapterClient
from bench.http_calls import call
from storyengine.pages.tests.in_browser import browser as browser
from storyengine.pages.tests.in_browser import draft as draft
from storyengine.pages.tests.in_browser import open_world
from storyengine.pages.tests.in_browser import page as page
from storyengine.pages.tests.in_browser import program as program
from storyengine.tests.browsing import open_page
from storyengine.tests.running import ScriptedProgram

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture
def windows(page: Page, draft: ChapterClient) -> tuple[Page, Page]:
    """Both show Tab 1 as it is while nothing is written."""
    second = open_page(page.context)
    for window in (page, second):
        open_world(window, draft)
    return page, second


def expect_saved(*windows: Page) -> None:
    for window in windows:
        expect(window.locator("#saved-state")).to_have_text("saved")


def tab1(chapter: ChapterClient) -> dict[str, Any]:
    return cast(dict[str, Any], chapter.read()["tab1"])


def test_no_window_takes_back_what_it_has_not_seen(
    windows: tuple[Page, Page], draft: ChapterClient, program: ScriptedProgram
) -> None:
    first, second = windows
    first.locator("#world-text").fill("The first window's world.")
    second.locator("#chapter-text").fill("The second window's chapter.")
    expect_saved(first, second)
    setup = {"agent_names": {"2": "Kara"}, "agent_identity_text_by_slot": {"2": "A priest."}}
    answer = call(program.server, "PUT", f"/api/session/{draft.session_id}/tab1", setup)
    assert answer.status == 200
    # Neither has any of that on its page.
    first.locator("#identity-1").fill("A ferrywoman.")
    second.locator("#name-1").fill("Mara")
    second.locator("#agent-count").select_option("5")
    expect_saved(first, second)

    saved = tab1(draft)
    assert saved["world_text"] == "The first window's world."
    assert saved["chapter_text"] == "The second window's chapter."
    identities = saved["agent_identity_text_by_slot"]
    assert (identities["1"], identities["2"]) == ("A ferrywoman.", "A priest.")
    chapter = draft.read()
    assert (chapter["agent_names"]["1"], chapter["agent_names"]["2"]) == ("Mara", "Kara")
    assert chapter["selected_agent_slots"] == [1, 2, 3, 4, 5]


def test_the_window_that_writes_last_wins(windows: tuple[Page, Page], draft: ChapterClient) -> None:
    first, second = windows
    first.locator("#world-text").fill("Written first.")
    expect_saved(first)
    second.locator("#world-text").fill("Written last.")
    expect_saved(second)
    assert tab1(draft)["world_text"] == "Written last."
    first.reload()
    expect(first.locator("#world-text")).to_have_value("Written last.")
