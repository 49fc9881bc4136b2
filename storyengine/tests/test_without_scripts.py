"""A browser without scripts: one can set up a chapter, play it, build its prose and download it."""

import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from storyengine.tests.browsing import PATIENCE_MS, open_page
from storyengine.tests.browsing import browser as browser
from storyengine.tests.running import run_scripted_program

pytestmark = [pytest.mark.browser, pytest.mark.processes]


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    with run_scripted_program(first_token_ms=20, tokens_per_second=400) as program:
        context = browser.new_context(base_url=program.url, java_script_enabled=False)
        yield open_page(context)
        context.close()


def reload_until(page: Page, shown: Locator) -> None:
    """Ask for the page again until it shows this, as a person without scripts does."""
    end = time.monotonic() + PATIENCE_MS / 1000
    while not shown.count() and time.monotonic() < end:
        page.goto(page.url)
    expect(shown.first).to_be_visible()


def test_from_the_empty_home_page_to_the_downloaded_prose(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="Start your first chapter").click()
    page.get_by_role("button", name="Begin").first.click()
    page.locator("#world-text").fill("A coast of salt.")
    page.locator("#chapter-text").fill("The lamp is dark.")
    page.locator("[name=name_1]").fill("Mara")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("[name=name_1]")).to_have_value("Mara")
    page.get_by_role("link", name="Start chapter").click()
    page.get_by_role("button", name="Lock and play").click()

    reload_until(page, page.locator("#prompt-text"))
    page.locator("#prompt-text").fill("The door opens.")
    page.locator("[data-send]").click()
    reload_until(page, page.locator("[data-send]"))
    transcript = page.locator("#transcript")
    expect(transcript).to_contain_text("The door opens.")
    expect(transcript).to_contain_text("Mara:")

    page.get_by_role("button", name="End Chapter").click()
    page.get_by_role("button", name="End Chapter").click()
    page.get_by_role("link", name="Chapter").first.click()
    # The chapter ends as soon as its memory is written.
    build = page.get_by_role("button", name="Build Narrative", disabled=False)
    reload_until(page, build)
    build.click()
    page.goto(page.url.partition("?")[0])
    download = page.get_by_role("button", name="Download", disabled=False)
    reload_until(page, download)
    page.locator("[name=format][value=txt]").check(force=True)
    with page.expect_download() as got:
        download.click()
    assert got.value.suggested_filename.endswith(".txt")
    assert len(got.value.path().read_text(encoding="utf-8").split()) > 50
