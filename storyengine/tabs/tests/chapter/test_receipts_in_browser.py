"""Tests of the receipts of a draft in a real browser."""

import json

import pytest
from playwright.sync_api import Page, expect

from storyengine.tabs.tests.in_browser import browser as browser
from storyengine.tabs.tests.in_browser import chapter as chapter
from storyengine.tabs.tests.in_browser import page as page
from storyengine.tabs.tests.in_browser import program as program
from testing.chapter_client import ChapterClient

pytestmark = [pytest.mark.browser, pytest.mark.processes]

BEATS = (
    "The ferryman refuses the copper coin and pushes off alone.",
    "A lantern burns in the flooded chapel. It smells of tallow.",
    "Seagulls steal the bread from the windowsill.",
)
TOLD = (
    "The ferryman would not have the copper coin. He pushed off alone.",
    "Far away, a clockmaker dreamed of elephants in the snow.",
    "In the flooded chapel there burned a lantern.",
)


@pytest.fixture
def told(page: Page, chapter: ChapterClient) -> str:
    """Play three prompts, end the chapter, and give it a draft of two scenes that does not tell the
    last prompt. Return the start of the chapter's addresses."""
    for slot, words in enumerate(BEATS, start=1):
        chapter.prompt(slot, words)
    chapter.end(seconds=60)
    file = page.request.get(f"/api/session/{chapter.session_id}/export").json()
    first, rest = TOLD[0], "\n\n".join(TOLD[1:])
    scenes = ((1, 1, 0), (2, 3, len(first) + 2))
    file["chapter"]["narrative_drafts"] = [
        {
            "narrative_agent_definition_text": "",
            "target_words": 200,
            "source_snapshot": {"max_prompt_index_used": 3, "memory_blocks_used": []},
            "chapter_text": f"{first}\n\n{rest}",
            "created_at": file["exported_at"],
            "attempt": 0,
            "scenes": [
                {"first_prompt": one, "last_prompt": last, "target_words": 100, "start": start}
                for one, last, start in scenes
            ],
        }
    ]
    answer = page.request.post(
        "/api/session/import",
        data=json.dumps(file),
        headers={"Content-Type": "application/json"},
    )
    return f"/chapters/{answer.json()['session_id']}"


def test_a_paragraph_is_opened_by_the_keys_and_leads_into_the_play(page: Page, told: str) -> None:
    page.goto(f"{told}/chapter")
    expect(page.locator("#paragraph-2 summary")).to_contain_text("Invented")
    receipt = page.locator("#paragraph-3 summary")
    expect(receipt).to_contain_text("Prompt 2")
    receipt.focus()
    page.keyboard.press("Enter")
    turn = page.locator("#paragraph-3 .receipt-turn")
    expect(turn).to_contain_text(BEATS[1])
    # A second time the part is not fetched again, and stays.
    page.keyboard.press("Enter")
    expect(turn).to_be_hidden()
    page.keyboard.press("Enter")
    expect(turn).to_be_visible()
    turn.get_by_role("link", name="Show prompt 2 in the play").click()
    link = page.get_by_role("link", name="Where the draft tells prompt 2")
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#told")).to_contain_text("Prompt 2 is told in paragraph 3.")


@pytest.mark.parametrize("width", [390, 1280])
def test_a_fact_of_the_now_view_is_followed_to_its_prompt_with_the_keyboard(
    page: Page, told: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{told}/chapter?show=now#memory")
    fact = page.locator("#memory-now li", has_text=BEATS[2])
    link = fact.get_by_role("link", name="Prompt 3")
    expect(link).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    link.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#prompt-3")).to_be_in_viewport()


@pytest.mark.parametrize("width", [320, 390, 1280])
def test_the_pages_fit_into_the_window(page: Page, told: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{told}/chapter")
    page.locator("#paragraph-3 summary").click()
    expect(page.locator("#paragraph-3 .receipt-turn")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.locator("#scene-1 .scene-act").get_by_role("link").click()
    expect(page.get_by_role("button", name="Rebuild this scene")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
