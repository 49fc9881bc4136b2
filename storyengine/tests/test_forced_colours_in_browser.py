"""Tests of pages for people who chose their own colours or less motion, in a real browser."""

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tests.pages_in_states import pages_in_all_states
from storyengine.tests.rendered_pages import Pages, browse, rendered

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

# The script returns the words of the elements that an outline sets apart.
OUTLINED = """(found) => [...document.querySelectorAll(found)]
  .filter((one) => getComputedStyle(one).outlineStyle === "solid")
  .map((one) => one.innerText.replace(/\\s+/g, " ").trim())"""
# The script returns the elements that move by themselves or take time to change. A shadow that
# follows the scrolling does not move by itself.
MOVING = """() => [...document.querySelectorAll("*")].filter((one) => {
  const style = getComputedStyle(one);
  const changes = style.transitionDuration.split(",").some((time) => parseFloat(time) > 0);
  const moves = style.animationName !== "none" && style.animationTimeline === "auto";
  return changes || moves || style.scrollBehavior === "smooth";
}).map((one) => `${one.tagName} ${one.className}`)"""


@pytest.fixture
def pages(client: Client, settings: Settings, provider: ScriptedProvider) -> Pages:
    settings.LLM = "scripted"
    chapter = make_active_chapter(agent_names={"1": "Mara", "2": "Tom"})
    add_prompts(chapter, 2, text="The door opens.", reply="I go up.")
    return rendered(client, ["/", *(address(chapter, one) for one in ("world", "play", "draft"))])


def test_the_current_tab_and_character_can_be_told_in_forced_colours(pages: Pages) -> None:
    [play] = [one for one in pages if one.endswith("/play")]
    with browse(pages) as page:
        page.emulate_media(forced_colors="active")
        page.goto(play)
        assert page.evaluate(OUTLINED, ".tabs a") == ["2 Play"]
        assert len(page.evaluate(OUTLINED, ".pill-face")) == 1


def test_nothing_moves_for_people_who_want_less_motion(pages: Pages) -> None:
    assert len(pages) == 4
    with browse(pages) as page:
        for one in pages:
            page.goto(one)
            page.emulate_media(reduced_motion="no-preference")
            assert page.evaluate(MOVING), "nothing moves in any case"
            page.emulate_media(reduced_motion="reduce")
            assert page.evaluate(MOVING) == []


@pytest.mark.weekly
def test_nothing_moves_for_them_on_any_page(
    client: Client, settings: Settings, provider: ScriptedProvider
) -> None:
    settings.LLM = "scripted"
    everywhere = pages_in_all_states(client)
    assert len(everywhere) > 35
    with browse(everywhere) as page:
        page.emulate_media(reduced_motion="reduce")
        for one in everywhere:
            page.goto(one)
            assert page.evaluate(MOVING) == [], one
