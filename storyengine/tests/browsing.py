"""A real browser for tests. On a machine without a browser the tests are skipped."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

# The folder in which screenshots of the three tabs are stored, so that people can look at them.
SCREENSHOTS = Path("test-results/screenshots")
# The longest wait for a step of the browser and for an expected state of a page. Playwright's own
# limit of five seconds is too short, because a busy machine may need as long for one answer.
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
    """Yield a browser. Until it is closed, Django refuses database queries in this thread."""
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip("no Chromium on this machine: what needs a real browser is not tried")
    with sync_playwright() as playwright:
        # Root, which is the user in a container, cannot use Chromium's sandbox. Tests can do
        # without the sandbox because they open only pages of this program.
        chromium = playwright.chromium.launch(
            executable_path=found,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield chromium
        chromium.close()
