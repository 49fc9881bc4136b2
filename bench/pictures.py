"""Takes the pictures of README.md: python -m bench.pictures

The program runs with data of its own and with the fake model server, which is asked for nothing.
The pictures show the chapter of pictured_chapter.toml, which people wrote. They need Chromium.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, ViewportSize, sync_playwright

from bench.browser import find_chromium
from bench.fake_server import start_fake_server
from bench.program import ROOT, Processes, open_processes, start_program

PICTURES = ROOT / "docs" / "images"
_WIDTH, _HEIGHT = 1280, 900
# Longer pages are cut off there.
_MOST_HEIGHT = 1_600
_STORE = [sys.executable, "-m", "bench.pictured_chapter"]


def main() -> None:
    with start_fake_server() as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_MODEL": "gpt-oss-20b",
            "STORYENGINE_CONTEXT_WINDOW": "128000",
        }
        with open_processes(environment) as processes:
            server = start_program(processes)
            with _open_page(f"http://{server.host}:{server.port}") as page:
                _take_pictures(page, processes)


@contextmanager
def _open_page(url: str) -> Iterator[Page]:
    found = find_chromium()
    if found is None:
        sys.exit("The pictures need Chromium, and there is none on this machine.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        size = ViewportSize(width=_WIDTH, height=_HEIGHT)
        yield chromium.new_context(base_url=url, viewport=size).new_page()
        chromium.close()


def _take_pictures(page: Page, processes: Processes) -> None:
    page.goto("/")
    _picture(page, "home")
    chapter = f"/chapters/{processes.run('the chapter', _STORE).strip()}"
    page.goto(f"{chapter}/world")
    _picture(page, "tab1")
    page.goto(f"{chapter}/play")
    # A little above the end stands the dashed line, which shows how far memory reaches.
    page.locator("#transcript").evaluate("element => (element.scrollTop -= 150)")
    _picture(page, "tab2")
    processes.run("the draft", [*_STORE, "--end"])
    page.goto(f"{chapter}/chapter")
    _picture(page, "tab3")
    page.goto(f"{chapter}/chapter?paragraph=7")
    _picture(page, "receipts")


def _picture(page: Page, name: str) -> None:
    page.wait_for_load_state("networkidle")
    height = page.evaluate("document.documentElement.scrollHeight")
    shown = _HEIGHT if name == "tab2" else min(height, _MOST_HEIGHT)
    # The window is as high as the picture, because some parts of a page keep to its lower edge.
    page.set_viewport_size(ViewportSize(width=_WIDTH, height=shown))
    page.screenshot(path=PICTURES / f"{name}.png")
    page.set_viewport_size(ViewportSize(width=_WIDTH, height=_HEIGHT))


if __name__ == "__main__":
    main()
