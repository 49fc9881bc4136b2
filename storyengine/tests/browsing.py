"""A real browser for tests. Without Chromium on the machine, these tests are skipped."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from testing.browser import find_chromium

# The folder in which tests store screenshots of the three tabs for people to look at.
SCREENSHOTS = Path("test-results/screenshots")
# The longest wait for a step of the browser or for an expected state of a page. Playwright's own
# limit of five seconds is too short, because a busy machine may need that long for one answer.
PATIENCE_MS = 60_000


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as chromium:
        yield chromium


def open_page(context: BrowserContext) -> Page:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    expect.set_options(timeout=PATIENCE_MS)
    return page


@contextmanager
def open_browser() -> Iterator[Browser]:
    """Yield a browser. While it is open, Django refuses all database queries in this thread."""
    found = find_chromium()
    if found is None:
        pytest.skip("no Chromium on this machine: what needs a real browser is not tried")
    with sync_playwright() as playwright:
        # Chromium's sandbox does not work for root, who is the user in a container. The tests do
        # without it, because they open only pages of this program.
        chromium = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()
