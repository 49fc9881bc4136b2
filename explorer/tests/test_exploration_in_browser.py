"""The scripted exploration in a real browser: the transcript with its lines, and the column with
what the player sees."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, FilePayload, Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import expect_idle
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tests.browsing import SCREENSHOTS
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.exploration import INN, LANDING, LINES, LOFT, MILL, SCENARIO, SECRET_MARK
from testing.program import wait_until
from testing.world_replies import ModelAnswer

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# So long the model server takes for each step while a test stops the reply.
SLOW_MS = 4_000
# The lease of a dead process runs out, and the sweep finds its reply.
RECOVERY_SECONDS = 90


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        yield running


@pytest.mark.each_run
def test_an_exploration_is_played_on_its_page(page: Page, program: ScriptedProgram) -> None:
    begin(page)
    transcript, column = page.locator("#transcript"), page.locator(".view")
    expect(page.locator(".view-place")).to_have_text(INN)
    expect(column).to_contain_text("Pia Brandt")

    say(page, 1, LINES[0])
    say(page, 2, LINES[1])
    # What changed stands as a short line before the paragraphs, and somebody was met by name.
    expect(page.locator(".view-place")).to_have_text(MILL)
    expect(transcript).to_contain_text("You go to The Mill. Late evening.")
    expect(transcript).to_contain_text("You meet Tove.")
    expect(column).to_contain_text("Tove")
    say(page, 3, LINES[2])
    expect(page.locator(".view-when")).to_have_text("Midnight")
    say(page, 4, LINES[3])
    expect(page.locator(".view-place")).to_have_text(LOFT)
    say(page, 5, LINES[4])
    expect(page.locator(".view-place")).to_have_text(LANDING)
    expect(column).to_contain_text("Marta Quill")
    # Nobody has told what she alone knows.
    assert SECRET_MARK not in page.content()

    # Another reply takes the move back.
    program.model.replies.with_tools = [ModelAnswer("You think better of it and stay.")]
    page.locator("#another-reply").click()
    expect(transcript).to_contain_text("You think better of it and stay.")
    expect_idle(page)
    expect(page.locator(".view-place")).to_have_text(LOFT)
    expect(column).not_to_contain_text("Marta Quill")
    # The earlier reply brings it back, and the later one takes it back again.
    page.locator("#choose-earlier").click()
    expect(page.locator(".view-place")).to_have_text(LANDING)
    page.locator("#choose-later").click()
    expect(page.locator(".view-place")).to_have_text(LOFT)

    # Continue has a number and no words.
    page.get_by_role("button", name="Continue").click()
    expect(transcript).to_contain_text("So it goes: (The player says")
    expect_idle(page)
    say(page, 7, LINES[6])
    expect(page.locator(".view-place")).to_have_text(INN)

    # A stop in the middle of the steps leaves the world as it was.
    before = len(program.model.calls)
    program.model.timing.first_token_ms = SLOW_MS
    page.locator("#prompt-text").fill(LINES[1])
    page.locator("#prompt-text").press("Enter")
    wait_until(lambda: len(program.model.calls) > before, "the first step", seconds=60)
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("[data-send]")).to_be_visible()
    program.model.timing.first_token_ms = 0
    expect(page.locator(".view-place")).to_have_text(INN)
    page.reload()
    expect(page.locator(".view-place")).to_have_text(INN)
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / "exploration-1280.png", full_page=True)
    page.set_viewport_size({"width": 390, "height": 664})
    page.screenshot(path=SCREENSHOTS / "exploration-390.png")
    expect(page.locator(".view-fold")).to_contain_text(INN)


@pytest.mark.each_run
def test_a_death_between_two_steps_changes_nothing(page: Page, program: ScriptedProgram) -> None:
    begin(page)
    say(page, 1, LINES[0])
    before = len(program.model.calls)
    program.model.timing.first_token_ms = SLOW_MS
    page.locator("#prompt-text").fill("I wait and then go. [wait Night; 5] [go the mill; Later]")
    page.locator("#prompt-text").press("Enter")
    # The second call means that the changes of the first step are stored.
    wait_until(lambda: len(program.model.calls) > before + 1, "the second step", seconds=60)
    program.processes.kill("web")
    program.restart("web")
    program.model.timing.first_token_ms = 0
    # The page finds the program again by itself, and says how the reply ended.
    expect(page.get_by_role("button", name="Retry")).to_be_visible(timeout=RECOVERY_SECONDS * 1_000)
    expect(page.locator(".view-place")).to_have_text(INN)
    expect(page.locator(".view-when")).not_to_have_text("Night")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".view-place")).to_have_text(MILL)
    expect_idle(page)
    expect(page.locator("#transcript")).to_contain_text("You go to The Mill. Later.")


def begin(page: Page) -> None:
    """Make an exploration, start it, and open its play."""
    made = page.request.post("/api/session", data={"mode": "explorer"}).json()
    address = f"/api/session/{made['session_id']}"
    assert page.request.put(f"{address}/scenario", data=SCENARIO).ok
    assert page.request.post(f"{address}/lock", headers={"Prefer": "wait=20"}).ok
    page.goto(f"/chapters/{made['session_id']}/play")


def say(page: Page, number: int, words: str) -> None:
    page.locator("#prompt-text").fill(words)
    page.locator("#prompt-text").press("Enter")
    expect(page.locator("#transcript")).to_contain_text(f"{number}) {words}")
    expect_idle(page)


def test_the_lists_of_tab_1_change_with_what_was_just_typed(page: Page) -> None:
    made = page.request.post("/api/session", data={"mode": "explorer"}).json()
    page.goto(f"/chapters/{made['session_id']}/world")
    page.locator("#setup-title").fill("The Long Night")
    # Enter sends no form: the first of its buttons would change a list.
    page.locator("#setup-title").press("Enter")
    page.get_by_role("button", name="Add a place").click()
    expect(page.locator("#place-0")).to_have_value("A new place")
    expect(page.locator("#setup-title")).to_have_value("The Long Night")
    page.locator("#place-0").fill("The Mill")
    page.get_by_role("button", name="Add a person").click()
    expect(page.locator("#person-0-name")).to_have_value("Somebody new")
    expect(page.locator("#place-0")).to_have_value("The Mill")
    page.locator("#person-0-place").select_option("The Mill")
    page.locator("#place-0").fill("The Old Mill")
    page.get_by_role("button", name="Add a place").click()
    expect(page.locator("#place-1")).to_have_value("A new place")
    expect(page.locator("#person-0-place")).to_have_value("The Old Mill")
    page.get_by_role("button", name="Remove A new place").click()
    expect(page.locator("#place-1")).to_have_count(0)
    expect(page.locator("#place-0")).to_have_value("The Old Mill")


def test_a_file_that_cannot_be_imported_is_refused_beside_the_button(page: Page) -> None:
    made = page.request.post("/api/session", data={"mode": "explorer"}).json()
    page.goto(f"/chapters/{made['session_id']}/world")
    cell = page.locator("section", has=page.locator("#scenario-file"))
    page.get_by_role("button", name="Import").click()
    expect(cell.get_by_role("alert")).to_contain_text("No file was chosen.")
    bad = {"characters": [{"name": "Osk", "encounterChance": 3}]}
    choose_file(page, bad)
    page.get_by_role("button", name="Import").click()
    expect(cell.get_by_role("alert")).to_contain_text("characters[0].encounterChance")
    choose_file(page, SCENARIO)
    page.get_by_role("button", name="Import").click()
    expect(page.locator("#setup-title")).to_have_value(SCENARIO["title"])


def choose_file(page: Page, scenario: dict[str, Any]) -> None:
    content = json.dumps(scenario).encode()
    file = FilePayload(name="scenario.json", mimeType="application/json", buffer=content)
    page.locator("#scenario-file").set_input_files(file)
