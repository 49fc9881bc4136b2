"""axe finds nothing on the pages of an exploration: who the user is, Tab 1 and play."""

import pytest
from django.test import Client
from pytest_django import Settings

from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import calls, move, play, scripted
from explorer.tests.test_notes import noted
from sessions.models import Session
from storyengine.tests.rendered_pages import browse
from storyengine.tests.test_axe_in_browser import WIDTHS, violations

pytestmark = [pytest.mark.django_db, pytest.mark.browser]
__all__ = ["scripted"]


def test_axe_finds_nothing(client: Client, scripted: ScriptedProvider, settings: Settings) -> None:
    def html(address: str) -> str:
        return client.get(address).content.decode()

    client.post("/chapters/new", {"mode": "explorer"})
    draft = Session.objects.get()
    client.post(f"/modes/explorer/{draft.pk}/ready/last-ferry")
    pages = {
        "/home": html("/"),
        "/who": html("/modes/explorer/begin/last-ferry"),
        "/world": html(f"/chapters/{draft.pk}/world"),
    }
    client.post("/modes/explorer/begin/last-ferry")
    chapter = Session.objects.exclude(pk=draft.pk).get()
    pages["/opening"] = html(f"/chapters/{chapter.pk}/play")
    scripted.enqueue(
        calls(
            "",
            noted(what="The key", holder="you", state="bent"),
            noted(person="You", condition="owes Osk a coin"),
            noted(place="here", condition="the window is broken"),
        ),
        "You have it.",
        calls("", move("The Mill")),
        "Flour.",
    )
    play(chapter)
    pages["/noted"] = html(f"/chapters/{chapter.pk}/play")
    play(chapter)
    pages["/moved"] = html(f"/chapters/{chapter.pk}/play")
    # The embedded model narrates, so that a click on a place moves the player.
    settings.LLM = scripted.name = "embedded"
    scripted.enqueue("Nobody knows.", "Nobody knows yet.")
    play(chapter, "I ask how far the landing and the ferry inn are.")
    pages["/offered"] = html(f"/chapters/{chapter.pk}/play")
    wrong: list[str] = []
    with browse(pages) as page:
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 844})
            for shown in pages:
                page.goto(shown)
                page.evaluate(
                    "document.querySelectorAll('details').forEach(one => one.open = true)"
                )
                wrong += [f"{shown} at {width}: {one}" for one in violations(page)]
    assert not wrong, "\n".join(wrong)
