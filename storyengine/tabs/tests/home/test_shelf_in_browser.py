"""Tests of the shelf of stories in a real browser."""

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.tests.rendered_pages import Pages, browse, rendered

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

# The script returns whether a click on the middle of the element reaches the element.
IS_ON_TOP = """(one) => {
  const { left, top, width, height } = one.getBoundingClientRect();
  return one.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}"""


@pytest.fixture
def home(client: Client, settings: Settings, provider: ScriptedProvider) -> Pages:
    settings.LLM = "scripted"
    for title in ("The Dark Lamp", "The Ferry"):
        add_prompts(make_active_chapter(title=title), 2, text="The door opens.", reply="I go up.")
    return rendered(client, ["/"])


@pytest.mark.parametrize("width", [390, 1280])
def test_what_can_be_done_with_a_story_opens_above_everything_else(home: Pages, width: int) -> None:
    with browse(home) as page:
        page.set_viewport_size({"width": width, "height": 900})
        page.goto("/")
        page.get_by_label("More for The Ferry").click()
        for name in ("Put it into the archive", "Delete the story"):
            act = page.get_by_role("button", name=name).first
            assert act.evaluate(IS_ON_TOP), name
