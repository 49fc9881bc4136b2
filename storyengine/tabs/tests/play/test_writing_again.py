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


def newest(chapter: Session) -> Attempt:
    return chapter.attempts.latest("submitted_at")


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

    def test_with_every_box_ticked_it_is_everybody_s_whoever_saw_the_one_before(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        Attempt.objects.filter(chosen_for__number=8).update(witnesses=[2])
        send(chapter)
        assert newest(chapter).witnesses is None
        send(chapter, submission_key="k2", witnesses_of="3", witnesses=["1"])
        assert newest(chapter).witnesses == [1, 3]

    def test_sent_twice_it_is_one_attempt(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        for _ in range(2):
            assert send(chapter).status_code == 200
        assert chapter.turns.get(number=8).attempts.count() == 2

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

    @pytest.mark.parametrize("again", ["x", "-1", "9" * 99])
    def test_what_is_no_number_is_refused(
        self, chapter: Session, provider: ScriptedProvider, again: str
    ) -> None:
        assert send(chapter, again=again).status_code == 422
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

    def test_a_retry_sends_the_same_words_again(
        self, htmx: Client, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderRefused("401"))
        send(chapter)
        html = get_page(htmx, chapter, "play")
        keys = [one.attributes["value"] for one in all_of(html, "input", name="submission_key")]

        async def retry() -> None:
            fields = {"submission_key": next(one for one in keys if one.startswith("k"))}
            await AsyncClient().post(address(chapter, "reroll"), fields)
            await replies_are_over()

        provider.enqueue("I step through.")
        async_to_sync(retry)()
        assert told(chapter) == ["8) A bell rings.", "Agent Yellow: I step through."]


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

    def test_at_first_the_cell_is_for_the_next_prompt(
        self, client: Client, chapter: Session
    ) -> None:
        html = get_page(client, chapter, "play")
        assert by_id(html, "again").attributes["value"] == ""
        assert "hidden" in by_id(html, "writes-again").attributes

    def test_an_address_of_an_earlier_turn_fills_nothing(
        self, client: Client, chapter: Session
    ) -> None:
        address_of_8 = links(get_page(client, chapter, "play"))[0].attributes["href"]
        add_prompts(chapter, 1)
        html = client.get(address_of_8).content.decode()
        assert by_id(html, "again").attributes["value"] == ""
        assert by_id(html, "prompt-text").text == "\n"

    @pytest.mark.parametrize("state", [State.ENDED, State.NARRATING])
    def test_in_a_chapter_that_is_not_in_play_there_is_none(
        self, client: Client, chapter: Session, state: State
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(state=state)
        assert not links(get_page(client, chapter, "play"))
