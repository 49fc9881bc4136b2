"""Tests of pages with hostile characters, in a real browser.

Some characters reverse the direction of text, and others pile up over nearby lines. The program's
own words must stay in their order, and no part of a page may be drawn over another part.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session, State
from sessions.tests.factories import (
    add_attempt,
    add_prompts,
    add_reply,
    make_active_chapter,
    make_chapter,
)
from storyengine.tabs.tests.addresses import address
from storyengine.tests.rendered_pages import Pages, browse, rendered
from storyengine.tests.whole_chapter import make_whole_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

# A character that reverses the direction of text, and Greek letters after it. No word of the
# program has Greek letters.
OVERRIDE = "\u202e\u03c9\u03c1\u03b1\u03bc \u03bd\u03b7"
MARKS = "\u0301\u0316"


@pytest.fixture(autouse=True)
def _scripted(settings: Settings, provider: ScriptedProvider) -> None:
    settings.LLM = "scripted"


def add_pending(chapter: Session, status: Attempt.Status, words: str, reply: str) -> None:
    add_attempt(
        chapter,
        status=status,
        actor=1,
        words=words,
        partial_text=reply,
        error=words if status == Attempt.Status.FAILED else "",
        lease_until=timezone.now() + timedelta(hours=1),
    )


def with_words(words: str, title: str, name: str) -> list[Session]:
    """Return six chapters in different states, in which all texts are these words, this title and
    this name.

    The first chapter is not begun, and the second is not played. In the third, a reply is awaited.
    In the fourth, a part of a reply is written. In the fifth, the reply is broken, and the sixth
    has ended.
    """
    names = dict.fromkeys("123", name)
    fields: dict[str, Any] = {"title": title, "agent_names": names, "shows_all_replies": True}
    unplayed, waiting, running, broken, ended = (make_active_chapter(**fields) for _ in range(5))
    for chapter in (running, broken, ended):
        add_prompts(chapter, 3, text=words, reply=words)
        add_reply(chapter, 3, words)
    add_pending(waiting, Attempt.Status.RUNNING, words, "")
    add_pending(running, Attempt.Status.RUNNING, words, words)
    add_pending(broken, Attempt.Status.FAILED, words, words)
    Session.objects.filter(pk=ended.pk).update(state=State.ENDED)
    return [make_chapter(**fields), unplayed, waiting, running, broken, ended]


@pytest.fixture
def turning(client: Client) -> Pages:
    """Return every page with texts that try to reverse the direction of the words after them."""
    whole = make_whole_chapter(OVERRIDE)
    chapters = with_words(OVERRIDE, OVERRIDE, OVERRIDE)
    tabs = [
        address(one, tab) for one in chapters for tab in ("play", "transcript", "world", "draft")
    ]
    return rendered(client, ["/", *whole.addresses, *tabs])


@pytest.fixture
def piled(client: Client) -> Pages:
    """Return pages with a title, a name and a beat that have as many marks on letters as the
    program allows.

    The library also lists two chapters without such marks.
    """
    make_active_chapter(title="Plain")
    pile = f"e{MARKS * 2_000} and so on"
    chapters = with_words(pile, f"e{MARKS * 59}", f"e{MARKS * 29}")
    make_active_chapter(title="Plain")
    running, ended = chapters[-3], chapters[-1]
    tabs = [address(running, "play"), address(chapters[0], "world"), address(ended, "transcript")]
    return rendered(client, ["/", *tabs, address(ended, "draft")])


# The script returns each word in Latin letters that the browser has drawn from right to left. All
# words of the program are in Latin letters.
TURNED_ROUND = """() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const turned = [];
  while (walk.nextNode()) {
    // A prompt as it was sent is one text, and so is a line of memory.
    if (walk.currentNode.parentElement.closest("pre, .memory-sections dd")) continue;
    for (const found of walk.currentNode.data.matchAll(/[A-Za-z]{2}/g)) {
      const at = (offset) => {
        const range = document.createRange();
        range.setStart(walk.currentNode, offset);
        range.setEnd(walk.currentNode, offset + 1);
        return range.getBoundingClientRect();
      };
      const first = at(found.index), second = at(found.index + 1);
      if (first.width && second.top === first.top && second.left < first.left) {
        const element = walk.currentNode.parentElement;
        turned.push(`${element.outerHTML.slice(0, 150)}: ${walk.currentNode.data.trim()}`);
        break;
      }
    }
  }
  return turned;
}"""
# The script numbers the visible parts of a page that contain no marks, and returns their number.
MARK_PARTS = """() => {
  const marks = /[\\u0301\\u0316]/, has = (part) => marks.test(part.textContent)
    || [...part.querySelectorAll("input, textarea")].some((field) => marks.test(field.value));
  let number = 0;
  for (const part of document.querySelectorAll(
    ".cell, .chapter-line, header, .under-transcript, .library-foot, h1, .line-acts"
  )) {
    if (!has(part) && part.getClientRects().length) part.dataset.part = number++;
  }
  return number;
}"""
# The script gives each text with marks a shadow that reaches far up and down. Fonts pile marks up
# differently on each machine, but this shadow is the same on all machines.
PILE_UP = """() => {
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    if (!/[\\u0301\\u0316]/.test(walk.currentNode.data)) continue;
    const far = [-400, -200, -100, -50, 50, 100, 200, 400];
    walk.currentNode.parentElement.style.textShadow = far.map((y) => `9px ${y}px red`).join(",");
  }
}"""


def test_nothing_beside_an_override_is_turned_round(turning: Pages) -> None:
    assert len(turning) > 25
    turned = []
    with browse(turning) as page:
        for shown in turning:
            page.goto(shown)
            turned += [f"{shown}: {found}" for found in page.evaluate(TURNED_ROUND)]
        page.goto("/")
        page.evaluate(
            "text => document.querySelector('h1').replaceChildren(text)", f"{OVERRIDE} played"
        )
        assert "played" in str(page.evaluate(TURNED_ROUND)), "The watch sees nothing."
    assert not turned, "\n".join(turned)


def test_no_pile_of_marks_reaches_into_another_part(piled: Pages) -> None:
    compared, reached = 0, []
    with browse(piled) as page:
        for shown in piled:
            page.goto(shown)
            parts = [f"[data-part='{number}']" for number in range(page.evaluate(MARK_PARTS))]
            alone = [photograph(page, part) for part in parts]
            page.evaluate(PILE_UP)
            for part, before in zip(parts, alone, strict=True):
                compared += 1
                if photograph(page, part) != before:
                    html = page.locator(part).evaluate("part => part.outerHTML")
                    reached.append(f"{shown}: {html[:200]}")
    assert compared > 10
    assert not reached, "\n".join(reached)


def photograph(page: Page, part: str) -> bytes:
    return page.locator(part).screenshot(animations="disabled", caret="hide")
