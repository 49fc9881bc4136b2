"""Tests of the panel of a mode, in a real browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import expect_idle, expect_turn
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tests.browsing import SCREENSHOTS
from storyengine.tests.running import ScriptedProgram, run_scripted_program

pytestmark = [pytest.mark.browser, pytest.mark.processes]

SETTINGS = "storyengine.tests.settings_with_lighthouse"


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("DJANGO_SETTINGS_MODULE", SETTINGS)
        with run_scripted_program() as running:
            yield running


def test_what_the_panel_gives_is_sent_with_the_prompt_and_with_no_other(page: Page) -> None:
    made = page.request.post("/api/session", data={"mode": "lighthouse"}).json()
    page.goto(f"/chapters/{made['session_id']}/play")
    page.locator("#degrees").fill("90")
    page.get_by_label("with a lamp").check()
    page.locator("#prompt-text").fill("Look there.")
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "panel-with-fields.png", full_page=True)
    page.locator("#prompt-text").press("Enter")
    expect_turn(page, 1, "Look there.")
    expect(page.locator("#degrees")).to_have_value("")
    page.locator("#prompt-text").fill("Go on.")
    page.locator("#prompt-text").press("Enter")
    expect_turn(page, 2, "Go on.")
    expect_idle(page)
    given = [
        page.request.get(f"/api/session/{made['session_id']}/turns/{number}").json()["attempts"]
        for number in (1, 2)
    ]
    assert [attempts[0]["given"] for attempts in given] == [
        {"degrees": 90, "with_a_lamp": True},
        None,
    ]
