"""Tests of the note that a chapter's pages show if the engine does not know the model."""

import pytest
from django.test import Client
from pytest_django import Settings

from sessions.models import Session
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of

UNKNOWN = "my<b>model</b>"


@pytest.fixture(autouse=True)
def unknown_model(settings: Settings) -> None:
    settings.LLM, settings.MODEL = "scripted", UNKNOWN


def notes(client: Client, chapter: Session, tab: str) -> list[str]:
    html = client.get(address(chapter, tab)).content.decode()
    assert UNKNOWN not in html
    return [note.words for note in all_of(html, "details", "model-note")]


@pytest.mark.parametrize("tab", ["world", "play", "draft"])
def test_every_tab_says_with_which_limits_and_why(
    client: Client, chapter: Session, settings: Settings, tab: str
) -> None:
    settings.MAX_OUTPUT = 1_500
    [note] = notes(client, chapter, tab)
    assert f"Sizes assumed for {UNKNOWN}" in note
    assert "8,192 tokens (a cautious default)" in note
    assert "1,500 (as you have set it)" in note
    assert "STORYENGINE_MODELS_FILE" in note


def test_a_known_model_needs_no_note(client: Client, chapter: Session, settings: Settings) -> None:
    settings.MODEL = "gpt-4o"
    assert notes(client, chapter, "play") == []
