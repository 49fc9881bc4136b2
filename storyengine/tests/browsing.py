"""A real browser for tests, where the machine has one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

# Where the pictures of the three tabs are left to be looked at.
SCREENSHOTS = Path("test-results/screenshots")
# For the browser's own steps and for what is expected of a page; Playwright expects it in five
# seconds, which a machine that does something else besides may need for one answer.
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
    """While it is open, the thread counts as one that must not use the ORM."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: what needs a real browser is not tried")
    with sync_playwright() as playwright:
        # Root, as in a container, cannot use Chromium's sandbox; only our own pages are opened.
        chromium = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()
