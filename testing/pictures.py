"""Takes the pictures of README.md and docs/guide.md: python -m testing.pictures

The program runs with data of its own and with the fake model server, which is asked for one reply
and refuses it. The pictures show the chapter of pictured_chapter.toml, which people wrote. They
need Chromium.
"""

import base64
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Page, ViewportSize, sync_playwright

from testing.browser import find_chromium
from testing.fake_server import FakeServer, start_fake_server
from testing.program import ROOT, Processes, open_processes, start_program

PICTURES = ROOT / "docs" / "images"
_WIDE = ViewportSize(width=1280, height=900)
_PHONE = ViewportSize(width=390, height=664)
# Longer pages are cut off there.
_MOST_HEIGHT = 1_400
# The quality of the pictures, of 100. Letters stay sharp with it.
_QUALITY = 82
_STORE = [sys.executable, "-m", "testing.pictured_chapter"]


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
                take_pictures(page, processes, model)


def take_pictures(page: Page, processes: Processes, model: FakeServer) -> None:
    page.goto("/")
    _picture(page, "home")
    page.goto("/models/")
    _picture(page, "models")
    chapter = f"/chapters/{processes.run('the chapter', [*_STORE, 'play']).strip()}"
    page.goto(f"{chapter}/world")
    _picture(page, "tab1")
    _pictures_of_play(page, processes, model, chapter)
    page.goto(f"{chapter}/chapter?show=now")
    _picture(page, "now", part=".memory-cell")
    processes.run("the draft", [*_STORE, "end"])
    page.goto(f"{chapter}/chapter")
    _picture(page, "tab3")
    page.goto(f"{chapter}/chapter?paragraph=7")
    _picture(page, "receipts")
    _pictures_of_prose(page, chapter)
    following = processes.run("the next chapter", [*_STORE, "follow"]).strip()
    page.goto(f"/chapters/{following}/world")
    page.locator("#shown-3").check(force=True)
    _picture(page, "next-chapter")
    page.request.post("/api/session", data={"starter": "nobody_aboard"})
    page.goto("/")
    _picture(page, "stories")


def _pictures_of_play(page: Page, processes: Processes, model: FakeServer, chapter: str) -> None:
    page.goto(f"{chapter}/play")
    # A little above the end stands the dashed line, which shows how far memory reaches.
    page.locator("#transcript").evaluate("element => (element.scrollTop -= 150)")
    _picture(page, "tab2", is_window=True)
    page.set_viewport_size(_PHONE)
    page.goto(f"{chapter}/play")
    _picture(page, "phone", is_window=True, size=_PHONE)
    page.goto(f"{chapter}/play")
    page.locator("[data-again]:visible").click()
    _picture(page, "write-again", is_window=True)
    page.get_by_role("link", name="Leave it as it is").click()
    processes.run("the edited reply", [*_STORE, "edit"])
    page.goto(f"{chapter}/play")
    page.locator("#latest-acts").scroll_into_view_if_needed()
    _picture(page, "attempts", is_window=True)
    model.queue_faults("401")
    page.locator("#prompt-text").fill("Somebody knocks at the kitchen window.")
    page.locator("[data-send]").click()
    page.locator(".broken-why").wait_for()
    _picture(page, "failure", is_window=True)
    page.get_by_role("button", name="Go on without it").click()
    page.locator(".set-aside").wait_for()


def _pictures_of_prose(page: Page, chapter: str) -> None:
    page.goto(f"{chapter}/chapter")
    page.get_by_role("link", name="Edit", exact=True).click()
    box = page.locator("#working-copy")
    box.fill(box.input_value().replace("Next door a dog began to bark", "Next door a dog barked"))
    page.get_by_role("button", name="Keep as another draft").click()
    page.get_by_role("link", name="Compare").click()
    _picture(page, "compare", part="#main .cell")
    page.goto(f"{chapter}/read")
    _picture(page, "reading", is_window=True)


@contextmanager
def _open_page(url: str) -> Iterator[Page]:
    found = find_chromium()
    if found is None:
        sys.exit("The pictures need Chromium, and there is none on this machine.")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        context = chromium.new_context(base_url=url, viewport=_WIDE, reduced_motion="reduce")
        yield context.new_page()
        chromium.close()


def _picture(
    page: Page, name: str, *, part: str = "", is_window: bool = False, size: ViewportSize = _WIDE
) -> None:
    """Take a picture of the page, of its window, or of the part that a selector names."""
    page.wait_for_load_state("networkidle")
    page.set_viewport_size(size)
    height = size["height"]
    if not is_window:
        height = min(page.evaluate("document.documentElement.scrollHeight"), _MOST_HEIGHT)
    # The window is as high as the picture, because some parts of a page keep to its lower edge.
    page.set_viewport_size(ViewportSize(width=size["width"], height=height))
    clip = {
        "x": 0.0,
        "y": 0.0,
        "width": float(size["width"]),
        "height": float(height),
        "scale": 1.0,
    }
    if part and (box := page.locator(part).bounding_box()):
        clip.update(x=box["x"], y=box["y"], width=box["width"], height=box["height"])
    cdp = page.context.new_cdp_session(page)
    how = {"format": "webp", "quality": _QUALITY, "clip": clip}
    taken = cdp.send("Page.captureScreenshot", how)
    (PICTURES / f"{name}.webp").write_bytes(base64.b64decode(taken["data"]))
    cdp.detach()
    page.set_viewport_size(_WIDE)


if __name__ == "__main__":
    main()
