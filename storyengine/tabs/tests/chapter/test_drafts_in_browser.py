"""Tests in a real browser of the pages on which drafts are read, edited and compared."""

import json
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from storyengine.tests.browsing import SCREENSHOTS
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

BEATS = (
    "At twenty past seven Mr. Pym counts the house and finds one person too many.",
    "Pym finds Dora on the lowest stair. Forty minutes, he says, and number one does not answer.",
    "A rope settles in its block. Lucian Ash stands before the door with the brass star.",
)
PARAGRAPHS = (
    "At twenty past seven Mr. Pym counted the house and found one person too many. He counted "
    "again, because a house is not a thing one finds wrong at the first try.",
    "“Forty minutes,” he told the stairs, and the stairs told Dora, who was sitting on the lowest "
    "of them with her hands between her knees and the whole of the second act in her mouth.",
    "Somewhere in the dark a clockmaker dreamed of elephants in the snow, and nobody woke him.",
    "The door had a brass star, and Lucian Ash stood before it in his second-act coat. A rope "
    "settled in its block above him, as ropes do before rain.",
)
SIZES = {390: 664, 1280: 900}


@pytest.fixture
def told(page: Page, chapter: ChapterClient) -> str:
    """Play three prompts, end the chapter, and give it two long drafts. Return the start of the
    chapter's addresses."""
    for slot, words in enumerate(BEATS, start=1):
        chapter.prompt(slot, words)
    chapter.end(seconds=60)
    file = page.request.get(f"/api/session/{chapter.session_id}/export").json()
    text = "\n\n".join(["# Forty Minutes", *PARAGRAPHS * 5])
    file["chapter"]["title"] = "Forty Minutes"
    file["chapter"]["narrative_agent_definition_text"] = "Third person, dry and quick."
    file["chapter"]["narrative_drafts"] = [
        _draft(file, text.replace("brass star", "silver moon")),
        _draft(file, text),
    ]
    answer = page.request.post(
        "/api/session/import",
        data=json.dumps(file),
        headers={"Content-Type": "application/json"},
    )
    return f"/chapters/{answer.json()['session_id']}"


def _draft(file: dict[str, Any], text: str) -> dict[str, Any]:
    return {
        "narrative_agent_definition_text": "",
        "target_words": 200,
        "source_snapshot": {"max_prompt_index_used": 3, "memory_blocks_used": []},
        "chapter_text": text,
        "created_at": file["exported_at"],
        "attempt": 0,
        "scenes": [{"first_prompt": 1, "last_prompt": 3, "target_words": 200, "start": 0}],
    }


def resize(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": SIZES[width]})


def shot(page: Page, name: str, width: int, *, full: bool = False) -> None:
    page.screenshot(path=SCREENSHOTS / f"{name}-{width}.png", full_page=full)


def top_of(page: Page, number: int) -> float:
    y: float = (
        page.locator(".told-text")
        .nth(number)
        .evaluate("element => element.getBoundingClientRect().y + scrollY")
    )
    return y


def expect_no_overflow(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("width", SIZES)
def test_name_and_download_of_the_draft_stand_on_the_first_screen(
    page: Page, told: str, width: int
) -> None:
    resize(page, width)
    page.goto(f"{told}/chapter")
    for part in (
        page.get_by_text("Draft 2", exact=True).first,
        page.locator("#draft-label"),
        page.locator("#memory-label"),
        page.get_by_role("heading", name="Narrator"),
        page.get_by_role("button", name="Download Chapter"),
    ):
        expect(part).to_be_in_viewport(
            ratio=1 if part != page.locator(".told-text").nth(1) else 0.1
        )
    assert page.evaluate("scrollY") == 0
    expect_no_overflow(page)
    shot(page, "draft", width)
    # The bar stays at the edge while the draft is longer, and then below the draft.
    page.evaluate("scrollTo(0, 600)")
    expect(page.get_by_role("button", name="Download Chapter")).to_be_in_viewport(ratio=1)
    deep = "element => getComputedStyle(element).backgroundColor"
    build = page.get_by_role("button", name="Build Narrative")
    assert build.evaluate(deep) == "rgb(30, 58, 138)"
    before = top_of(page, 5)
    receipt = page.locator(".receipt").nth(1)
    receipt.locator("summary").click()
    expect(receipt.locator(".receipt-turn")).to_be_visible()
    # Where there is room beside the prose, no paragraph moves.
    assert (top_of(page, 5) == before) == (width == 1280)
    expect_no_overflow(page)
    shot(page, "draft-receipt", width)
    shot(page, "draft-whole", width, full=True)
    page.locator("#memory-fold > summary").click()
    expect(page.locator("#memory-blocks")).to_be_visible()
    page.locator("#narrator-fold > summary").click()
    expect(page.locator("#definition")).to_be_visible()
    expect_no_overflow(page)
    shot(page, "draft-folds", width)


@pytest.mark.parametrize("width", SIZES)
def test_a_draft_is_edited_compared_and_kept(page: Page, told: str, width: int) -> None:
    resize(page, width)
    page.goto(f"{told}/chapter")
    page.get_by_role("link", name="Edit", exact=True).click()
    box = page.locator("#working-copy")
    text = box.input_value().replace("brass star", "tin crown", 1)
    box.fill(text)
    expect(page.locator("#saved-state")).to_have_text("saved")
    expect_no_overflow(page)
    shot(page, "edit", width)
    page.reload()
    expect(box).to_have_value(text)
    page.get_by_role("link", name="Compare with draft 2").click()
    expect(page.locator("ins").last).to_contain_text("tin crown")
    page.get_by_role("link", name="Back to the working copy").click()
    # What was just typed is saved before it is kept.
    box.press("Control+End")
    box.press_sequentially(" The end.")
    page.get_by_role("button", name="Keep as another draft").click()
    expect(page.locator(".draft-kicker")).to_contain_text("Draft 3, edited from draft 2")
    expect(page.locator(".told-text").last).to_contain_text("The end.")
    page.get_by_role("link", name="Compare").click()
    expect(page.locator("del").last).to_contain_text("brass star")
    expect_no_overflow(page)
    shot(page, "differences", width)
    page.get_by_role("link", name="Back to draft 3").click()
    page.get_by_role("link", name="Draft 1").click()
    page.get_by_role("button", name="Put into the story").click()
    expect(page.locator(".draft-kicker")).to_contain_text("Draft 1, in the story")


def test_two_windows_lose_nothing(page: Page, told: str) -> None:
    page.goto(f"{told}/chapter")
    page.get_by_role("link", name="Edit", exact=True).click()
    other = page.context.new_page()
    other.goto(page.url)
    page.locator("#working-copy").fill("Mine.")
    expect(page.locator("#saved-state")).to_have_text("saved")
    other.locator("#working-copy").fill("Theirs.")
    expect(other.locator(".other-words")).to_have_text("Mine.")
    expect(other.locator("#working-copy")).to_have_value("Theirs.")
    other.get_by_role("button", name="Save mine").click()
    expect(other.locator("#saved-state")).to_have_text("saved")
    # A window with nothing unsaved that keeps an older text is told too.
    page.get_by_role("button", name="Keep as another draft").click()
    expect(page.locator(".other-words")).to_have_text("Theirs.")
    other.get_by_text("Throw away the working copy").click()
    other.get_by_role("button", name="Throw it away").click()
    expect(other.locator(".told-text").first).to_be_visible()
    expect(other.get_by_role("link", name="Edit", exact=True)).to_be_visible()


@pytest.mark.parametrize("width", SIZES)
def test_a_book_is_read_as_the_reader_likes_it(page: Page, told: str, width: int) -> None:
    resize(page, width)
    page.goto(f"{told}/chapter")
    page.get_by_role("link", name="Read").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Forty Minutes")
    style = "name => getComputedStyle(document.querySelector('.book-text'))[name]"
    before = float(page.evaluate(style, "fontSize").removesuffix("px"))
    shot(page, "reading", width)
    with page.expect_response("**/reading"):
        page.get_by_role("radio", name="Large", exact=True).check(force=True)
    with page.expect_response("**/reading"):
        page.get_by_role("radio", name="Black").check(force=True)
    assert float(page.evaluate(style, "fontSize").removesuffix("px")) > before
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(0, 0, 0)"
    assert float(page.evaluate(style, "fontSize").removesuffix("px")) > before
    line = "() => document.querySelector('.read-so-far').getBoundingClientRect().width"
    assert page.evaluate(line) == 0
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 3)")
    page.wait_for_function(f"0 < ({line})() && ({line})() < innerWidth")
    expect_no_overflow(page)
    shot(page, "reading-black", width)
    text = page.locator(".book-text").evaluate("element => getComputedStyle(element).color")
    assert text == "rgb(230, 232, 236)"
    page.emulate_media(media="print")
    expect(page.locator(".reading-bar")).to_be_hidden()
    assert page.evaluate(style, "color") == "rgb(0, 0, 0)"
