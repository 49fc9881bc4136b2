"""Tests of hostile characters in forms, addresses and the API.

These are lone surrogates, control characters, characters that reverse the direction of text, and
marks that pile up on a letter.
"""

import json
from typing import Any
from urllib.parse import quote

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from pytest_django import Settings

from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Session, Tab1Inputs
from sessions.tests.factories import make_active_chapter, make_chapter
from storyengine.tabs.tests.addresses import address

OVERRIDE = "\u202egniog si ohW"
MARKS = "\u0301\u0316"
PILE = "e" + MARKS * 5_000
TEXTS = {
    "NUL": ("a\x00b", False),
    "a control": ("a\x1b[2Jb", False),
    "a lone surrogate": ("a\ud800b", False),
    "two lone surrogates": ("\udfff\ud800", False),
    "an override": (OVERRIDE, True),
    "ten thousand marks": (PILE, False),
    "marks that fit": ("e" + MARKS * 20, True),
    "joiners": ("\u200d\ufeff\u2060x", True),
    "the last of all characters": ("\U0010ffff", True),
}
FIELDS = {
    "rename": "title",
    "save-world": "world_text",
    "save-draft": "definition_text",
    "correct-canon": "canon",
    "prompt": "user_text",
}


@pytest.fixture
def _scripted(settings: Settings, provider: ScriptedProvider) -> None:
    settings.LLM = "scripted"


def encoded(field: str, text: str) -> str:
    """Return the field in the encoding of a form. A browser would never send a lone surrogate, so a
    hostile client is assumed."""
    return f"{field}={quote(text.encode('utf-8', 'surrogatepass'))}"


def stored(chapter: Session) -> list[Any]:
    rows: list[Any] = list(Session.objects.filter(pk=chapter.pk).values())
    rows += Tab1Inputs.objects.filter(session=chapter).values()
    for records in (chapter.members, chapter.turns, chapter.events, chapter.memory_blocks):
        rows += records.values()
    return rows


@pytest.mark.each_case
@pytest.mark.django_db
@pytest.mark.usefixtures("_scripted")
class TestTakenOrRefused:
    @pytest.mark.parametrize("kind", TEXTS)
    @pytest.mark.parametrize(("name", "field"), FIELDS.items())
    def test_in_a_form(self, name: str, field: str, kind: str) -> None:
        text, is_text = TEXTS[kind]
        chapter = make_chapter() if name == "save-world" else make_active_chapter()
        before = stored(chapter)
        body = f"{encoded(field, text)}&agent_slot=1&submission_key=k"
        response = post(address(chapter, name), body)
        if is_text:
            assert response.status_code in (200, 204, 302)
            assert text in repr_of(stored(chapter))
        elif "\x00" in text or "\x1b" in text or len(text) > 5_000:
            assert response.status_code == 422
            assert stored(chapter) == before
        else:
            # The bytes are no valid UTF-8. Django has put the replacement character in their place.
            assert response.status_code in (200, 204, 302)
            received = text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
            assert received in repr_of(stored(chapter))
        assert "\ud800" not in repr_of(stored(chapter))

    @pytest.mark.parametrize("kind", TEXTS)
    @pytest.mark.parametrize(
        ("method", "path", "field"),
        [
            ("PATCH", "", "title"),
            ("PUT", "/tab1", "world_text"),
            ("PUT", "/tab1", "agent_names"),
            ("PUT", "/tab1", "agent_public_text"),
            ("PUT", "/narrative-agent", "narrative_agent_definition_text"),
            ("POST", "/canon-correction", "canon"),
            ("POST", "/prompt", "user_text"),
        ],
    )
    def test_in_the_api(
        self, client: Client, method: str, path: str, field: str, kind: str
    ) -> None:
        text, is_text = TEXTS[kind]
        chapter = make_chapter() if path == "/tab1" else make_active_chapter()
        before = stored(chapter)
        body: dict[str, Any] = {field: {"1": text} if field.startswith("agent_") else text}
        if path == "/prompt":
            body["agent_slot"] = 1
        response = client.generic(
            method,
            f"/api/session/{chapter.pk}{path}",
            # JSON may contain a lone surrogate, which is written as an escape.
            json.dumps(body),
            content_type="application/json",
        )
        # In a name, an override would turn the words around it.
        if is_text and not (field == "agent_names" and kind == "an override"):
            assert response.status_code in (200, 201)
            assert text in repr_of(stored(chapter))
        else:
            assert response.status_code == 422
            assert stored(chapter) == before

    @pytest.mark.parametrize(
        "text", ["%00", "%ED%A0%80", quote(OVERRIDE), "%FF%FE", "%CC%81" * 999]
    )
    def test_in_an_address(self, client: Client, text: str) -> None:
        chapter = make_active_chapter()
        before = stored(chapter)
        for path in (
            f"/chapters/{text}/play",
            f"/{text}",
            f"/api/session/{text}",
            f"/api/session?limit={text}",
            f"/login?next={text}",
            address(chapter, "canon") + f"?item={text}",
            address(chapter, "draft") + f"?draft={text}&seen={text}",
            address(chapter, "play") + f"?words={text}",
            f"/admin/story_sessions/event/?q={text}&session__id__exact={text}",
            f"/consent/?chapter={text}",
        ):
            assert client.get(path).status_code < 500, path
        assert stored(chapter) == before


def post(path: str, body: str) -> Any:
    async def run() -> Any:
        form = "application/x-www-form-urlencoded"
        response = await AsyncClient().post(path, body, content_type=form)
        # The reply ends here, in the thread of the test. In another thread it would wait for the
        # test's own transaction.
        await replies_are_over()
        return response

    return async_to_sync(run)()


def repr_of(rows: list[Any]) -> str:
    """Return the values of all rows as text, in which no character is escaped."""
    return "\n".join(_flat(row) for row in rows)


def _flat(value: Any) -> str:
    if isinstance(value, dict):
        return "\n".join(map(_flat, value.values()))
    return "\n".join(map(_flat, value)) if isinstance(value, list) else str(value)
