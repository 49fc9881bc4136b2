"""A real browser moves the player by a click, while the embedded model narrates."""

import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from explorer.tests.test_exploration_in_browser import begin, say
from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import expect_idle
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.exploration import INN, LANDING, MILL

pytestmark = [pytest.mark.browser, pytest.mark.processes]

# The server of the scripted model stands as that of the embedded one for as long as a test takes.
STANDS_AS_EMBEDDED = """
from datetime import timedelta
from django.utils import timezone
from agents.models import EmbeddedServer, ModelChoice
EmbeddedServer.objects.create(
    phase="ready", model="m", context_window=32_768, base_url={url!r},
    alive_at=timezone.now() + timedelta(hours=1),
)
ModelChoice.objects.create(agent="", builtin="embedded")
"""


@pytest.fixture(scope="module")
def program(browser: Browser) -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        code = STANDS_AS_EMBEDDED.format(url=running.model.base_url)
        running.processes.run("row", [sys.executable, "manage.py", "shell", "-c", code])
        yield running


def test_a_click_and_a_key_move_the_player(page: Page, program: ScriptedProgram) -> None:
    begin(page)
    place, transcript = page.locator(".view-place"), page.locator("#transcript")
    say(page, 1, "I ask Osk whether the mill is far.")
    # What was being typed stays.
    page.locator("#prompt-text").fill("I look for")
    page.get_by_role("button", name=f"Go to {MILL}?").press("Enter")
    expect(place).to_have_text(MILL)
    expect(transcript).to_contain_text("You go to The Mill.")
    expect_idle(page)
    expect(page.locator(".deeds")).to_have_count(0)

    page.locator(".map-place", has_text=LANDING).click()
    expect(place).to_have_text(LANDING)
    expect_idle(page)
    page.get_by_role("button", name=f"Go to {INN}", exact=True).press("Space")
    expect(place).to_have_text(INN)
    expect_idle(page)
    expect(page.locator("#prompt-text")).to_have_value("I look for")
