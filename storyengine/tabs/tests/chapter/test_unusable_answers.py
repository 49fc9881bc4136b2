"""Tests of pages after an answer of agent 0, 8 or 9 that the engine could not use."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta, world_lock
from sessions.models import Session, State
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of
from testing.refusals import DRAFTS_UNCHANGED, NOT_IN_FORM, TOLD_NO_PROSE

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]

NO_FORM = ("I would rather not.", '{"memory_type": ', "{}", "[1, 2]")
NO_PROSE = (
    json.dumps({"chapter_text": "The lamp was lit."}),
    '```json\n{"scenes": [',
    '[{"scene": 1, "text": "The lamp was lit."}]',
    "**DONE**",
    "* * *",
)
UNUSABLE_LOCKS = (*NO_FORM, json.dumps({**world_lock(), "world": "gothic"}))
UNUSABLE_DELTAS = (*NO_FORM, json.dumps({**turn_delta(8, 8), "major_events": ["It snows."]}))


def told(client: Client, chapter: Session, tab: str, about: str) -> str:
    """Return the words of the paragraph that contains the text `about`. The details below the
    paragraph are not part of it."""
    html = client.get(address(chapter, tab)).content.decode()
    [words] = [one.words for one in all_of(html, "p") if about in one.words]
    assert not re.search(r"[{}\[\]]|must be|JSON|is missing", words)
    return words


def check_said(client: Client, chapter: Session, tab: str) -> str:
    html = client.get(address(chapter, tab)).content.decode()
    [details] = [
        one for one in all_of(html, "details", "exact") if "What the check said" in one.words
    ]
    assert "open" not in details.attributes
    return details.words


def retry_addresses(client: Client, chapter: Session, tab: str) -> list[str]:
    html = client.get(address(chapter, tab)).content.decode()
    retries = [one for one in all_of(html, "button") if one.words == "Retry"]
    return [
        form.attributes["action"] for one in retries for form in one.parents if form.tag == "form"
    ]


@pytest.mark.parametrize("answer", UNUSABLE_LOCKS)
def test_a_lock(
    client: Client, draft: Session, provider: ScriptedProvider, run_jobs: RunJobs, answer: str
) -> None:
    provider.enqueue(answer, answer)
    client.post(address(draft, "lock"))
    run_jobs()
    words = told(client, draft, "world", "could not be started")
    assert NOT_IN_FORM in words
    assert "everything you wrote is there" in words
    assert "Another try often helps" in words
    assert len(check_said(client, draft, "world")) > len("What the check said") + 10
    assert retry_addresses(client, draft, "world") == [address(draft, "lock")]

    provider.enqueue(json.dumps(world_lock()))
    client.post(address(draft, "lock"))
    run_jobs()
    draft.refresh_from_db()
    assert draft.state == State.ACTIVE


@pytest.mark.parametrize("answer", UNUSABLE_DELTAS)
def test_memory(
    client: Client, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, answer: str
) -> None:
    provider.enqueue(answer, answer)
    client.post(address(chapter, "end"))
    run_jobs()
    for tab in ("play", "draft"):
        words = told(client, chapter, tab, "could not be ended")
        assert NOT_IN_FORM in words
        assert "Play can go on; nothing is lost." in words
        assert len(check_said(client, chapter, tab)) > len("What the check said") + 10
    assert retry_addresses(client, chapter, "play") == [address(chapter, "retry-memory")]


def test_a_narrative(
    client: Client, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    client.post(address(chapter, "end"))
    run_jobs()
    provider.enqueue("")
    client.post(address(chapter, "build"))
    run_jobs()
    words = told(client, chapter, "draft", "was not finished")
    assert "empty reply" in words
    assert DRAFTS_UNCHANGED in words
    assert retry_addresses(client, chapter, "draft") == [address(chapter, "build")]


@pytest.mark.parametrize("answer", NO_PROSE)
def test_a_narrative_that_is_no_prose(
    client: Client, chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs, answer: str
) -> None:
    client.post(address(chapter, "end"))
    run_jobs()
    provider.enqueue(answer)
    client.post(address(chapter, "build"))
    run_jobs()
    words = told(client, chapter, "draft", "was not finished")
    assert TOLD_NO_PROSE in words
    assert "Another try often helps" in words
    assert DRAFTS_UNCHANGED in words
    assert len(check_said(client, chapter, "draft")) > len("What the check said") + 10
    assert retry_addresses(client, chapter, "draft") == [address(chapter, "build")]
    assert not chapter.narrative_drafts.exists()

    provider.enqueue("The lamp was lit. " * 300)
    client.post(address(chapter, "build"))
    run_jobs()
    assert chapter.narrative_drafts.count() == 1
