"""Tests of turns whose only events are thoughts. Such turns are played, remembered, narrated and
tried."""

import json
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.calling.tests.exploring import native as native
from agents.flows.replies.tests.trying import try_again
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.declaration import Stage
from agents.tests.second_mode import install
from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Session
from sessions.record.transcript import read_transcript
from storyengine.api.tests.calling import (
    RunJobs,
    acall,
    address,
    call,
    events_in,
    in_loop,
)
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.playing_the_lighthouse import begin, chosen, played, prompt
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native", "lighthouse")]

THOUGHT = "The lamp will fail."


@pytest.fixture
def chapter(lighthouse: None, monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Session:
    """Return a chapter of the lighthouse whose mode also has the stage of narration."""
    install(monkeypatch, settings, lighthouse=replace(MODE, stages=MODE.stages | {Stage.NARRATION}))
    return begin()


def think(chapter: Session, provider: ScriptedProvider) -> Any:
    """Play a turn without words in which the only event is a thought."""
    provider.enqueue(f"*thinks* {THOUGHT}")
    answer = prompt(chapter, 2, "")
    assert answer.status_code == 201, answer.content
    return answer.json()


class TestPlay:
    def test_the_turn_has_its_number_and_the_thought_is_shown_when_it_is_asked_for(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        answer = think(chapter, provider)
        assert (answer["prompt_index"], answer["events"]) == (1, [])
        assert call("GET", address(chapter)).json()["events"] == []
        [shown] = call("GET", address(chapter) + "?thoughts=1").json()["events"]
        assert (shown["kind"], shown["text"]) == ("thought", THOUGHT)
        assert read_transcript(chapter).plain_text == "1)"
        provider.enqueue("I climb.")
        assert [one["text"] for one in played(chapter, 1)] == ["Go on.", "I climb."]

    def test_a_stream_shows_what_the_model_writes_until_the_commit_folds_the_thought_away(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(f"*thinks* {THOUGHT}")

        async def stream() -> list[tuple[str, Any]]:
            body = {"agent_slot": 2, "user_text": ""}
            accept = {"Accept": "text/event-stream"}
            answer = await acall("POST", address(chapter, "prompt"), body, **accept)
            return [event async for event in events_in(answer)]

        *tokens, folded, (name, turn) = in_loop(stream)
        assert "".join(token["text"] for _, token in tokens) == f"*thinks* {THOUGHT}"
        assert folded == ("token", {"text": "", "is_restart": True})
        assert (name, turn["events"]) == ("turn", [])


class TestTrials:
    @pytest.mark.parametrize("thinks_first", [False, True])
    def test_one_that_comes_to_a_thought_is_read_and_used_as_any_other(
        self, client: Client, chapter: Session, provider: ScriptedProvider, thinks_first: bool
    ) -> None:
        before = "" if thinks_first else "I climb."
        provider.enqueue(before or f"*thinks* {THOUGHT}")
        played(chapter, 2)
        tried = call("GET", address(chapter, "trial"))
        assert (tried.status_code, tried.json()["reply"]) == (200, before)
        page = client.get(reverse("pages:try", args=[chapter.pk, 1]))
        assert ("came to thoughts alone" in page.content.decode()) == thinks_first
        provider.enqueue("*thinks* I am afraid.")
        trial = try_again(chapter, "Somebody who is afraid.")
        path = address(chapter, f"trial/{trial.pk}")
        for is_adopted in (False, True):
            shown = call("GET", path)
            assert shown.status_code == 200, shown.content
            document = shown.json()
            assert (document["status"], document["is_adopted"]) == ("done", is_adopted)
            assert (document["reply_before"], document["reply"]) == (before, "")
            for name in ("trial", "trial-status"):
                page = client.get(reverse(f"pages:{name}", args=[chapter.pk, trial.pk]))
                assert "came to thoughts alone" in page.content.decode()
            assert call("POST", path + "/adopt").status_code == 201
        assert chosen(chapter, 1)["events"][-1]["text"] == "I am afraid."


def test_memory_and_drafts_have_its_number_and_not_its_thought(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    Session.objects.update(chunk_size_prompts=3, target_words=100)
    thinks = {2, 4, 5, 6, 8}
    for number in range(1, 9):
        if number in thinks:
            think(chapter, provider)
        else:
            provider.enqueue(f"I climb {number} steps.")
            played(chapter, 1, f"Beat {number}.")
        run_jobs()
    assert len(provider.history) == 8 + 1
    assert call("POST", address(chapter, "end")).status_code in (200, 202)
    run_jobs()
    chapter.refresh_from_db()
    assert (chapter.state, chapter.last_summarized_prompt_index) == ("ENDED", 8)
    deltas = MemoryBlock.objects.filter(type=MemoryBlock.Type.TURN_DELTA)
    stretches = deltas.order_by("from_prompt_index").values_list("from_prompt_index", flat=True)
    assert list(stretches) == [1, 4, 7]
    provider.enqueue("word " * 100)
    assert call("POST", address(chapter, "build-narrative")).status_code == 202
    run_jobs()
    draft = NarrativeDraft.objects.get()
    assert (draft.source_snapshot["max_prompt_index_used"], draft.word_count) == (8, 100)
    narrated = provider.history[-1].messages[-1].content
    places = [narrated.index(part) for part in ("3) Beat 3.", "4)\n\n5)\n\n6)", "7) Beat 7.", "8)")]
    assert places == sorted(places)
    of_others = [one for one in provider.history if one.messages[0].role != "system"]
    agents = [one for one in provider.history if THOUGHT in json.dumps(_texts(one))]
    assert provider.history[-1] not in agents
    assert not [one for one in of_others if one in agents]


def _texts(request: Any) -> list[str]:
    return [message.content for message in request.messages]
