"""What a server says of a refusal stands in no sentence of ours: it is one click away."""

from collections.abc import Callable

import pytest
from django.test import Client

from agents.flows.beginning.locking import request_lock
from agents.flows.telling.narrating import request_build
from agents.flows.tests.playing import play
from agents.llm.providers.failures.call_errors import (
    ProviderError,
    ProviderRefused,
)
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact, ModelTest
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of

pytestmark = pytest.mark.django_db

OURS, THEIRS = "The server refused the call.", "invalid_request: <b>max_tokens</b>."
RunJobs = Callable[[], int]


def refusal() -> ProviderError:
    return ProviderRefused(OURS, said=THEIRS)


def check(client: Client, page: str) -> None:
    """Check that the page says in words of ours what happened, and theirs only on a click."""
    html = client.get(page).content.decode()
    assert OURS in html
    assert html.count("invalid_request") == 1
    [details] = [one for one in all_of(html, "details", "exact") if THEIRS in one.words]
    assert details.words == f"What the server said{THEIRS}"
    assert "open" not in details.attributes


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def refused_reply(chapter: Session, provider: ScriptedProvider) -> None:
    provider.enqueue(refusal())
    play(chapter, "The door opens.")


def test_a_reply(client: Client, chapter: Session, provider: ScriptedProvider) -> None:
    refused_reply(chapter, provider)
    check(client, address(chapter, "play"))
    # The record of the call has both, each in a column of its own.
    assert LLMArtifact.objects.values_list("error", "server_said").get() == (OURS, THEIRS)


def test_a_lock(client: Client, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
    chapter = make_chapter()
    chapter.tab1.world_text = chapter.tab1.chapter_text = "A coast."
    chapter.tab1.save()
    request_lock(chapter.pk)
    provider.enqueue(refusal())
    run_jobs()
    check(client, address(chapter, "world"))


def test_a_narrative(client: Client, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
    chapter = make_active_chapter()
    add_prompts(chapter, 2)
    Session.objects.filter(pk=chapter.pk).update(state=State.ENDED, last_summarized_prompt_index=2)
    request_build(chapter.pk)
    provider.enqueue(refusal())
    run_jobs()
    check(client, address(chapter, "draft"))


def test_the_test_of_a_model(client: Client, provider: ScriptedProvider) -> None:
    provider.enqueue(refusal())
    html = client.post("/models/test", {"agent": "AGENT_9"}).content.decode()
    assert f"No answer. {OURS}" in " ".join(one.words for one in all_of(html, "div", "tested"))
    assert html.count("invalid_request") == 1
    assert ModelTest.objects.values_list("error", "server_said").get() == (OURS, THEIRS)
