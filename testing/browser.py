"""Finds a real browser, for the pictures and for the tests in a browser."""

import shutil

_NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_chromium() -> str | None:
    """Return the path of Chromium, or None if this machine has none."""
    return next((path for name in _NAMES if (path := shutil.which(name))), None)
