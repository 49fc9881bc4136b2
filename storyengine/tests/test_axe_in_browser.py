"""Tests that axe finds nothing on any page, in any state, at two widths.

Its rules are those of WCAG 2.2 at the levels A and AA, and its best practices.
"""

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from storyengine.tests.pages_in_states import pages_in_all_states
from storyengine.tests.rendered_pages import Pages, browse

pytestmark = [pytest.mark.django_db, pytest.mark.browser]

WIDTHS = (390, 1280)
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"]


@pytest.fixture(autouse=True)
def _scripted(settings: Settings, provider: ScriptedProvider) -> None:
    settings.LLM = "scripted"


@pytest.fixture
def pages(client: Client) -> Pages:
    found = pages_in_all_states(client)
    return {one: page for one, page in found.items() if page.startswith("<!doctype html>")}


@pytest.mark.each_run
def test_axe_finds_nothing_on_any_page(pages: Pages) -> None:
    assert len(pages) > 35
    wrong: list[str] = []
    with browse(pages) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            for shown in pages:
                page.goto(shown)
                wrong += [f"{shown} at {width}: {one}" for one in violations(page)]
    assert not wrong, "\n".join(wrong)


def violations(page: object) -> list[str]:
    options = {"resultTypes": ["violations"], "runOnly": RULES}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{one['id']} ({one['help']}): {'; '.join(node['html'][:160] for node in one['nodes'][:3])}"
        for one in found
    ]
