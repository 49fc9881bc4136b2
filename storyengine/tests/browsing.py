"""A real browser for tests, where the machine has one."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as chromium:
        yield chromium


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
