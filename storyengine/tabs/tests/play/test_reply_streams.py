import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from asgiref.sync import async_to_sync
from django.http import StreamingHttpResponse
from django.test import AsyncClient, Client
from pytest_django import Settings

from agents.flows.tests.playing import replies_are_over
from agents.llm.providers.failures.call_errors import ProviderTimeout, StreamBroken
from agents.llm.providers.scripted import Script, ScriptedProvider
from sessions.models import Attempt, Session, State
from sessions.tests.factories import add_attempt
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db

Frame = tuple[str, str]


async def htmx_post(address: str, fields: dict[str, str] | None = None) -> Any:
    return await AsyncClient().post(address, fields or {}, headers={"HX-Request": "true"})


async def send(
    chapter: Session, text: str = "The ice cracks.", *, slot: str = "2", key: str = "key-1"
) -> Any:
    fields = {"agent_slot": slot, "user_text": text, "submission_key": key, "shape": "playing"}
    return await htmx_post(address(chapter, "prompt"), fields)


async def chunks(chapter: Session) -> AsyncIterator[str]:
    """Yield the stream of the newest attempt's reply, in the pieces that the server sends."""
    attempt = await Attempt.objects.order_by("submitted_at").alast()
    assert attempt is not None
    response = await AsyncClient().get(address(chapter, "stream", attempt.pk))
    assert response["Content-Type"] == "text/event-stream"
    assert response["Cache-Control"] == "no-store"
    assert response["X-Accel-Buffering"] == "no"
    async for chunk in cast(AsyncIterator[bytes], cast(StreamingHttpResponse, response)):
        yield chunk.decode()


async def frames(chapter: Session) -> AsyncIterator[Frame]:
    """Yield the name and the data of each event in the stream of the newest attempt's reply."""
    async for chunk in chunks(chapter):
        name, *data = chunk.removesuffix("\n\n").split("\n")
        assert all(line.startswith("data: ") for line in data)
        yield (
            name.removeprefix("event: "),
            "\n".join(line.removeprefix("data: ") for line in data),
        )


async def all_frames(chapter: Session) -> list[Frame]:
    return [frame async for frame in frames(chapter)]


class TestSendPrompt:
    def test_the_answer_shows_the_words_and_follows_the_reply(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        async def scenario() -> Any:
            response = await send(chapter, "The <b>ice</b>.")
            await replies_are_over()
            return response

        response = async_to_sync(scenario)()
        html = response.content.decode()
        running = by_id(html, "running")
        attempt = Attempt.objects.get(submission_key="key-1")
        assert running.attributes["sse-connect"] == address(chapter, "stream", attempt.pk)
        assert "9) The <b>ice</b>." in running.text
        assert "Stop" in by_id(html, "prompt-controls").words
        accepted = json.loads(response["HX-Trigger-After-Swap"])
        assert accepted == {"prompt-accepted": {"key": "key-1"}}
        assert by_id(html, "submission-key").attributes["value"] != "key-1"

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"text": " "}, 422),
            ({"text": "x" * 5001}, 422),
        ],
    )
    def test_what_cannot_be_sent_is_refused_beside_the_box(
        self, chapter: Session, fields: dict[str, str], status: int
    ) -> None:
        async def scenario() -> Any:
            return await send(chapter, **fields)

        response = async_to_sync(scenario)()
        assert response.status_code == status
        assert "HX-Retarget" in response
        assert chapter.attempts.count() == chapter.prompt_index

    def test_the_same_form_sent_twice_is_one_turn(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("I hear it.", gate=gate))

        async def scenario() -> list[Any]:
            responses = [await send(chapter), await send(chapter)]
            gate.set()
            await replies_are_over()
            return [*responses, await send(chapter)]

        responses = async_to_sync(scenario)()
        assert [one.status_code for one in responses] == [200, 200, 200]
        assert all("prompt-accepted" in one["HX-Trigger-After-Swap"] for one in responses)
        chapter.refresh_from_db()
        assert chapter.prompt_index == 9

    def test_a_form_whose_words_changed_after_a_failure_is_a_turn_of_its_own(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(ProviderTimeout("The model took too long."))

        async def scenario() -> Any:
            # The form sends the first key again, as a browser does if the first answer was lost.
            await send(chapter)
            await replies_are_over()
            response = await send(chapter, "Something else.")
            await replies_are_over()
            return response

        assert async_to_sync(scenario)().status_code == 200
        sent = chapter.attempts.order_by("submitted_at").values_list("words", "status")
        assert list(sent)[chapter.prompt_index :] == [
            ("The ice cracks.", Attempt.Status.SET_ASIDE),
            ("Something else.", Attempt.Status.COMMITTED),
        ]

    def test_two_windows_at_once_the_second_keeps_its_words(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("I hear it.", gate=gate))

        async def scenario() -> Any:
            await send(chapter)
            refused = await send(chapter, "Another.", key="key-2")
            gate.set()
            await replies_are_over()
            return refused

        refused = async_to_sync(scenario)()
        assert refused.status_code == 409
        assert "HX-Trigger-After-Swap" not in refused
        assert "Show the chapter as it is now" in refused.content.decode()

    def test_a_refused_plain_form_gives_the_words_back(self, chapter: Session) -> None:
        async def scenario() -> Any:
            fields = {"agent_slot": "7", "user_text": "Knock <here>.", "submission_key": "k"}
            return await AsyncClient().post(address(chapter, "prompt"), fields)

        response = async_to_sync(scenario)()
        assert response.status_code == 422
        [words] = all_of(response.content.decode(), "textarea")
        assert words.text == "\nKnock <here>."


class TestStream:
    def test_escaped_text_then_the_finished_play_area(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("I <i>hear</i>\n\n  it & wait.", gate=gate, gate_at=2))

        async def scenario() -> list[Frame]:
            await send(chapter)
            following = frames(chapter)
            first = await anext(following)
            gate.set()
            return [first] + [frame async for frame in following]

        *texts, (last, html) = async_to_sync(scenario)()
        assert texts[0][0] == "restart"
        assert {name for name, _ in texts[1:]} <= {"text"}
        streamed = "".join(text for _, text in texts)
        assert streamed == "I &lt;i&gt;hear&lt;/i&gt;\n\n  it &amp; wait."
        assert last == "ended"
        assert all_of(html, "p", "entry")[-1].text == "Agent Orange: I <i>hear</i>\n\n  it & wait."
        assert "Send" in by_id(html, "prompt-controls").words
        assert by_id(html, "announcement").text == "Agent Orange: I <i>hear</i>\n\n  it & wait."
        assert by_id(html, "meter").words.startswith("9 prompts")

    def test_a_reconnection_starts_with_the_text_so_far(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("One two three four.", gate=gate, gate_at=2))

        async def scenario() -> tuple[str, Frame]:
            await send(chapter)
            first = ""
            async for _, text in frames(chapter):
                first += text
                if first.startswith("One two"):
                    break
            again = frames(chapter)
            restart = await anext(again)
            gate.set()
            await replies_are_over()
            return first, restart

        first, restart = async_to_sync(scenario)()
        assert first == "One two "
        assert restart == ("restart", "One two ")

    def test_a_broken_reply_ends_with_what_can_be_done(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(Script("I hear", error=StreamBroken("The line dropped.")))

        async def scenario() -> list[Frame]:
            await send(chapter)
            return await all_frames(chapter)

        html = async_to_sync(scenario)()[-1][1]
        broken = by_id(html, "broken").words
        assert "The ice cracks." in broken
        assert "The line dropped." in broken
        # The form is for the character whose attempt failed, and not for the next one.
        assert all_of(html, "input", name="agent_slot")
        chapter.refresh_from_db()
        assert chapter.prompt_index == 8

    def test_a_reset_meanwhile_is_said(self, chapter: Session, provider: ScriptedProvider) -> None:
        gate = asyncio.Event()
        provider.enqueue(Script("One two.", gate=gate, gate_at=1))

        async def scenario() -> Frame:
            await send(chapter)
            following = frames(chapter)
            await anext(following)
            await htmx_post(address(chapter, "reset"))
            gate.set()
            return [frame async for frame in following][-1]

        name, html = async_to_sync(scenario)()
        assert name == "ended"
        assert "reset or deleted" in html

    def test_who_comes_back_to_it_after_the_chapters_end_is_sent_on(
        self, htmx: Client, chapter: Session
    ) -> None:
        add_attempt(chapter, status=Attempt.Status.COMMITTED)
        Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
        name, html = async_to_sync(all_frames)(chapter)[-1]
        assert name == "ended"
        answer = htmx.get(by_id(html, "play-poll").attributes["hx-get"])
        assert answer["HX-Redirect"] == address(chapter, "play")


class TestStop:
    def test_the_text_so_far_waits_for_the_gm(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(Script("One two three.", gate=asyncio.Event(), gate_at=2))

        async def scenario() -> Any:
            await send(chapter)
            following = frames(chapter)
            text = ""
            while text != "One two ":
                text += (await anext(following))[1]
            response = await htmx_post(address(chapter, "stop"), {"shape": "playing"})
            assert response.status_code == 204
            return [frame async for frame in following][-1]

        name, html = async_to_sync(scenario)()
        assert name == "ended"
        broken = by_id(html, "broken").words
        assert "Agent Orange: One two" in broken
        assert "You stopped this reply." in broken


class TestReroll:
    def test_where_all_replies_are_shown_the_new_one_is_read_out(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        Session.objects.filter(pk=chapter.pk).update(shows_all_replies=True)
        provider.enqueue("Another way.")

        async def scenario() -> list[Frame]:
            await htmx_post(address(chapter, "reroll"), {"submission_key": "r"})
            return await all_frames(chapter)

        html = async_to_sync(scenario)()[-1][1]
        assert all_of(html, "div", "not-chosen")[-1].text == "Agent Orange: reply 8"
        assert by_id(html, "announcement").text == "Agent Orange: Another way."


class TestWarm:
    def test_only_the_embedded_model_is_warmed(
        self, chapter: Session, settings: Settings, client: Any
    ) -> None:
        def warms() -> bool:
            return address(chapter, "warm") in client.get(address(chapter, "play")).content.decode()

        assert not warms()
        settings.LLM = "embedded"
        assert warms()
