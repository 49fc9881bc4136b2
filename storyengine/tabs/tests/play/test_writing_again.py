"""Tests of the prompt cell when it sends other words for the latest prompt."""

from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session, State
from sessions.record.transcript import read_transcript
from sessions.tests.factories import add_prompts
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page

pytestmark = pytest.mark.django_db


def send(chapter: Session, **fields: Any) -> Any:
    """Send the prompt cell as the page does while it writes the latest prompt again."""
    sent = {
        **{"agent_slot": "3", "user_text": "A bell rings.", "submission_key": "k"},
        **{"shape": "playing", "again": str(chapter.prompt_index), **fields},
    }

    async def run() -> Any:
        headers = {"HX-Request": "true"}
        response = await AsyncClient().post(address(chapter, "prompt"), sent, headers=headers)
        await replies_are_over()
        return response

    return async_to_sync(run)()


def told(chapter: Session) -> list[str]:
    chapter.refresh_from_db()
    return [one.rendered for one in read_transcript(chapter).entries][-2:]


class TestSending:
    def test_it_is_another_attempt_at_the_same_number_by_another_character(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I step through.")
        response = send(chapter)
        assert "prompt-accepted" in response["HX-Trigger-After-Swap"]
        running = by_id(response.content.decode(), "running")
        assert "8) A bell rings." in running.words
        assert told(chapter) == ["8) A bell rings.", "Agent Yellow: I step through."]
        assert chapter.turns.get(number=8).attempts.count() == 2
        assert "beat 8" not in str(provider.history[-1].messages)

    def test_the_key_of_a_prompt_that_was_lost_on_its_way_is_no_hindrance(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderRefused("401"))
        send(chapter, again="")
        assert send(chapter).status_code == 200
        assert {one.kind for one in chapter.attempts.filter(submission_key__startswith="k")} == {
            *(Attempt.Kind.PROMPT, Attempt.Kind.REROLL)
        }

    def test_once_play_has_gone_on_it_is_refused_and_says_what_was_kept(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        add_prompts(chapter, 1)
        response = send(chapter, again="8")
        assert response.status_code == 409
        said = response.content.decode()
        assert "prompt 8 can no longer be written again" in said
        assert "your words are kept" in said
        assert not provider.history


class TestBroken:
    def test_its_words_are_shown_and_can_be_put_back_to_be_written_again(
        self, client: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderRefused("401"))
        send(chapter)
        html = get_page(client, chapter, "play")
        broken = by_id(html, "broken")
        assert "A bell rings." in broken.words
        assert "The story still goes by the reply before it" in broken.words
        [link] = [one for one in links(html) if broken in one.parents]
        assert link.attributes["data-again"] == "8"
        assert link.attributes["data-puts-back"] == "3"


def links(html: str) -> list[Element]:
    return [one for one in all_of(html, "a") if "data-again" in one.attributes]


class TestLink:
    def test_without_scripts_it_fills_the_prompt_cell(
        self, client: Client, chapter: Session
    ) -> None:
        Attempt.objects.filter(chosen_for__number=8).update(witnesses=[1, 2])
        link = links(get_page(client, chapter, "play"))[0]
        html = client.get(link.attributes["href"]).content.decode()
        assert by_id(html, "prompt-text").text == "\nbeat 8"
        assert by_id(html, "again").attributes["value"] == "8"
        assert "hidden" not in by_id(html, "writes-again").attributes
        assert "You are writing prompt 8 again." in by_id(html, "writes-again").words
        assert "checked" in by_id(html, "panel-2").attributes
        ticks = all_of(html, "input", name="witnesses", type="checkbox")
        assert ["checked" in one.attributes for one in ticks] == [True, True, False]

    @pytest.mark.parametrize("state", [State.ENDED, State.NARRATING])
    def test_in_a_chapter_that_is_not_in_play_there_is_none(
        self, client: Client, chapter: Session, state: State
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=state)
        assert not links(get_page(client, chapter, "play"))
