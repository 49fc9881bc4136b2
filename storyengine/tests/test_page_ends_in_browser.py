"""Tests in a real browser, at three widths, that each page ends soon after its last visible part.

No page may be wider than the window.
"""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from agents.models import Job
from agents.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta, world_lock
from memory.models import NarrativeDraft
from memory.tests.factories import add_delta, add_lock
from sessions.models import Attempt, Session
from sessions.states import State
from sessions.tests.factories import (
    add_attempt,
    add_prompts,
    make_active_chapter,
    make_cast,
    make_chapter,
)
from storyengine.tabs.tests.addresses import address
from storyengine.tests.rendered_pages import Pages, browse, rendered
from storyengine.tests.whole_chapter import SNAPSHOT, make_whole_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

WIDTHS = (320, 390, 1280)
BLOCKS = 40
MOST_BELOW = 200
NAMES = {"1": "Mara of the Ferry", "2": "Tomasz Wieczorkowski", "3": "The Keeper's Youngest"}
LONG = " ".join(["Unverhältnismäßigkeitsbeschreibung"] * 5)

# The script returns how far a page goes on below its last visible part, and the elements that are
# too wide for their place. If the page is shorter than the window, the end of the window counts as
# its last part. Rows of pills, code, figures and text fields may scroll, so they are not too wide.
MEASURE = """() => {
  const scrolls = (part) => /auto|scroll|clip|hidden/.test(getComputedStyle(part).overflowY);
  const bottomOf = (part) => {
    let bottom = part.getBoundingClientRect().bottom;
    for (let outer = part.parentElement; outer; outer = outer.parentElement) {
      if (outer !== document.body && scrolls(outer)) {
        bottom = Math.min(bottom, outer.getBoundingClientRect().bottom);
      }
    }
    return bottom + scrollY;
  };
  const isSeen = (part) => part.getClientRects().length && !part.closest(".unseen, .skip")
    && (part.matches("input, textarea, select, img, button")
      || [...part.childNodes].some((node) => node.nodeType === 3 && node.data.trim()));
  const parts = [...document.body.querySelectorAll("*")].filter(isSeen);
  const last = Math.max(innerHeight, ...parts.map(bottomOf));
  const root = document.scrollingElement;
  const mayScroll = ".pills, .usage-scroll, pre, input, textarea";
  const wide = [...document.body.querySelectorAll("*")].filter((part) =>
    /auto|scroll/.test(getComputedStyle(part).overflowX) && !part.matches(mayScroll)
    && part.scrollWidth > part.clientWidth);
  if (root.scrollWidth > innerWidth) wide.push(root);
  const over = (part) => part.scrollWidth - part.clientWidth;
  const name = (part) => `${part.tagName} ${part.className} by ${over(part)}`;
  return { below: root.scrollHeight - last, wide: wide.map(name) };
}"""


@pytest.fixture(autouse=True)
def _scripted(settings: Settings, provider: ScriptedProvider) -> None:
    settings.LLM = "scripted"


def remember_much(**fields: Any) -> Session:
    """Return a chapter with 40 memory blocks. Only two of the three characters may read every
    second delta."""
    chapter = make_active_chapter(agent_names=NAMES, title="The Dark Lamp, and what came of it")
    chapter.tab1.world_text = LONG
    chapter.tab1.save()
    make_cast(
        chapter, public_text={"1": LONG, "2": "A priest."}, pronouns={"3": "they/them/theirs"}
    )
    add_prompts(chapter, BLOCKS, text="The stairs are wet.", reply="I go up.")
    add_lock(chapter, world_lock(list(NAMES.values())))
    for number in range(1, BLOCKS):
        told = turn_delta(number, number, canon_locks=[f"Fact number {number}."])
        audience = [1, 2, 3] if number % 2 else [1, 2]
        add_delta(chapter, number, number, told, audience=audience)
    Session.objects.filter(pk=chapter.pk).update(**fields)
    return chapter


def in_other_states() -> list[Session]:
    """Return chapters with as much memory, whose pages also show unfinished or failed work."""
    running, broken, building, failed = (remember_much() for _ in range(4))
    add_attempt(running, words=LONG, partial_text=LONG * 20)
    add_attempt(broken, words=LONG, partial_text=LONG, status=Attempt.Status.FAILED, error=LONG * 5)
    Session.objects.filter(pk=building.pk).update(state=State.NARRATING)
    add_build(building, Job.Status.RUNNING)
    Session.objects.filter(pk=failed.pk).update(state=State.ENDED)
    add_build(failed, Job.Status.FAILED)
    return [running, broken, building, failed]


def add_build(chapter: Session, status: Job.Status) -> None:
    Job.objects.create(
        session=chapter,
        kind=Job.Kind.NARRATE,
        key="build",
        status=status,
        error=LONG,
        failure="NotInForm",
        partial_text="The lamp.\n\n" * 300,
        progress={"words": 600, "target_words": 2_500},
        lease_until=timezone.now() + timedelta(hours=1),
    )


@pytest.fixture
def pages(client: Client) -> Pages:
    whole = make_whole_chapter("The lamp.")
    unplayed, played = make_chapter(), remember_much(last_summarized_prompt_index=BLOCKS - 1)
    ended = remember_much(last_summarized_prompt_index=BLOCKS - 1, state=State.ENDED)
    NarrativeDraft.objects.create(
        session=ended, target_words=100, source_snapshot=SNAPSHOT, chapter_text="The lamp. " * 900
    )
    chapters = (unplayed, played, ended, *in_other_states())
    tabs = [address(one, tab) for one in chapters for tab in ("world", "play", "draft")]
    return rendered(client, ["/", *whole.addresses, *tabs])


def test_each_ends_soon_after_the_last_thing_on_it_and_none_is_wider_than_the_window(
    pages: Pages,
) -> None:
    assert len(pages) > 35
    wrong: list[str] = []
    with browse(pages) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            for shown in pages:
                page.goto(shown)
                if (now := page.get_by_role("radio", name="Now")).count():
                    wrong += measure(page, f"{shown} at {width}")
                    now.check()
                wrong += measure(page, f"{shown} at {width}")
    assert not wrong, "\n".join(wrong)


def measure(page: Any, where: str) -> list[str]:
    found = page.evaluate(MEASURE)
    wrong = [f"{where}: {one}" for one in found["wide"]]
    if found["below"] > MOST_BELOW:
        wrong.append(f"{where}: ends {found['below']} px below the last thing on it")
    return wrong
