"""Tests in a real browser, in windows of four sizes, that each page ends soon after what it shows.

No page may be wider than the window.
"""

from typing import Any

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from storyengine.tests.pages_in_states import pages_in_all_states
from storyengine.tests.rendered_pages import Pages, browse

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

# The third is a window of 1280 x 900 at a zoom of 200 %.
SIZES = ((320, 844), (390, 844), (640, 450), (1280, 844))
MOST_BELOW = 200

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


@pytest.fixture
def pages(client: Client) -> Pages:
    return pages_in_all_states(client)


@pytest.mark.weekly
def test_each_ends_soon_after_the_last_thing_on_it_and_none_is_wider_than_the_window(
    pages: Pages,
) -> None:
    assert len(pages) > 35
    wrong: list[str] = []
    with browse(pages) as page:
        for width, height in SIZES:
            page.set_viewport_size({"width": width, "height": height})
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
