from decimal import Decimal
from typing import Any

import pytest

from agents.calling.records.stored_prompts import read_layers
from agents.flows.tests.playing import play, play_many
from agents.llm.providers.failures.call_errors import ProviderError
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from sessions.models import Session, State
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = pytest.mark.django_db


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    chapter = make_active_chapter()
    play_many(chapter, 4)
    return chapter


def calls(chapter: Session, query: str = "") -> Any:
    response = call("GET", address(chapter, "calls") + query)
    assert response.status_code == 200
    return response.json()


def test_the_newest_come_first_with_their_figures(chapter: Session) -> None:
    listed = calls(chapter)
    assert listed["count"] == 4
    assert [one["prompt_index"] for one in listed["items"]] == [4, 3, 2, 1]
    newest = listed["items"][0]
    artifact = LLMArtifact.objects.latest("created_at")
    assert newest["call_id"] == str(artifact.pk)
    assert newest["attempt_id"] == str(artifact.attempt_id)
    sent = read_layers(artifact)
    assert newest["layers"] == [
        {name: getattr(one, name) for name in newest["layers"][0]} | {"left_out": [], "record": []}
        for one in sent
    ]
    # Two of the layers begin a message. Each other layer follows a blank line, which is two
    # characters long.
    assert newest["prompt_characters"] == sum(one.characters for one in sent) + 2 * (len(sent) - 2)
    assert newest["estimated_tokens"] == sum(layer["tokens"] for layer in artifact.layers)
    assert newest["input_tokens"] == artifact.token_counts["input"]
    assert newest["outcome"] == "finished"
    assert 0 < newest["shared_characters"] < newest["prompt_characters"]
    # The newest call is the first in the list. Only its agent had been called before, so only this
    # call can share characters with an earlier call.
    assert [one["shared_characters"] is None for one in listed["items"]] == [
        *(False, True, True, True)
    ]


def test_pages_follow_each_other(chapter: Session) -> None:
    pages = [calls(chapter, f"?limit=2&offset={offset}")["items"] for offset in (0, 2, 4)]
    assert [[one["prompt_index"] for one in page] for page in pages] == [[4, 3], [2, 1], []]
    assert [*pages[0], *pages[1]] == calls(chapter)["items"]


def test_what_was_used_is_summed_by_agent(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(ProviderError("No line."))
    play(chapter)
    listed = calls(chapter, "?limit=1")
    assert listed["usage"]["calls"] == 5
    assert listed["usage"]["failed"] == 1
    assert [one["agent_id"] for one in listed["usage_by_agent"]] == [1, 2, 3]
    assert listed["usage"]["input_tokens"] == sum(
        one["usage"]["input_tokens"] for one in listed["usage_by_agent"]
    )
    failed = listed["items"][0]
    assert (failed["outcome"], failed["error"]) == ("failed", "No line.")
    assert (failed["input_tokens"], failed["prompt_index"]) == (None, None)


class TestDryRun:
    def run(self, chapter: Session, **body: Any) -> Any:
        return call("POST", address(chapter, "dry-run"), body)

    def test_it_shows_the_prompt_and_its_cost_and_spends_nothing(
        self, chapter: Session, provider: ScriptedProvider, settings: Any
    ) -> None:
        settings.LLM, settings.MODEL = "openai", "gpt-4o"
        sent = len(provider.history)
        shown = self.run(chapter, agent_slot=1, user_text="The door opens.").json()
        assert shown["model"] == "gpt-4o"
        assert shown["layers"][-2]["text"] == "## USER_PROMPT\nThe door opens."
        assert shown["tokens"] == sum(layer["tokens"] for layer in shown["layers"])
        assert 0 < Decimal(shown["dollars"]) < Decimal(shown["most_dollars"])
        assert shown["too_long"] == ""
        assert 0 < shown["shared_characters"] < shown["characters"]
        assert len(provider.history) == sent
        assert LLMArtifact.objects.count() == sent


def test_the_number_of_queries_does_not_grow_with_the_page(
    chapter: Session, django_assert_max_num_queries: Any
) -> None:
    for _ in range(2):
        # The list of calls needs five queries, and one more for each agent. The calls here are of
        # at most three agents, so the list needs at most eight queries.
        with django_assert_max_num_queries(8):
            calls(chapter, "?limit=100")
        play_many(chapter, 8)


def test_a_build_can_be_estimated_once_the_chapter_is_ended(chapter: Session) -> None:
    address_of_it = address(chapter, "build-estimate")
    assert_problem(call("GET", address_of_it), 409, "wrong-state")
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED)
    estimate = call("GET", address_of_it).json()
    assert estimate["calls"] == 1
    assert estimate["input_tokens"] > 0
    assert Decimal(estimate["dollars"]) > 0
    assert LLMArtifact.objects.filter(agent_id=9).count() == 0
