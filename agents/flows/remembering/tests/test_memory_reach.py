"""Tests of what reaches a character's prompt after 60 and more turns: everything that memory has,
as far as the window has room, and a record of what it had no room for."""

import json
import re
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.flows.beginning.locking import request_lock
from agents.flows.tests.playing import play
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting.tests.payloads import as_xml
from agents.tests.replies import answer_in_form, turn_delta
from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.models import Session
from testing.session_data import beat_text, reply_text

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
CHUNK = 7
NAMES = {1: "Mara", 2: "Tom", 3: "Ines"}
# The kinds of field of a delta, in an order that makes their marks easy to read.
_FACT = re.compile(r"\(fact \d+\.\w+\)")


def fact(number: int, field: str) -> str:
    """Return a short text with a mark that no other field of any delta has."""
    return f"the {field} that everybody saw in stretch {number} (fact {number}.{field})"


def marked_delta(first: int, last: int) -> dict[str, Any]:
    """Return a delta in which every text of every kind carries a mark."""
    number = last // CHUNK

    def said(field: str) -> str:
        return fact(number, field)

    return turn_delta(
        first,
        last,
        location_updates={"where": said("where"), "notable_environment_changes": [said("around")]},
        major_events=[
            {
                "event": said("event"),
                "cause": said("cause"),
                "effect": said("effect"),
                "participants": [said("participant")],
            }
        ],
        character_actions=[
            {
                "agent_slot": 1,
                "name": "Mara",
                "did": said("did"),
                "intent": said("intent"),
                "result": said("result"),
            },
            {"agent_slot": 0, "name": said("name"), "did": "waited", "intent": "", "result": ""},
        ],
        state_changes=[
            {
                "key": said("key"),
                "before": said("before"),
                "after": said("after"),
                "notes": said("notes"),
            }
        ],
        relationship_shifts=[
            {
                "between": ["Tom", said("between")],
                "change": said("change"),
                "evidence": said("evidence"),
            }
        ],
        items_clues_discovered=[
            {"thing": said("thing"), "who_found": said("finder"), "why_it_matters": said("why")}
        ],
        unresolved_threads=[
            {
                "thread": said("thread"),
                "stakes": said("stakes"),
                "next_likely_trigger": said("trigger"),
            }
        ],
        canon_locks=[said("canon")],
        contradictions_or_questions=[said("question")],
    )


def facts_of(delta: dict[str, Any]) -> set[str]:
    return set(_FACT.findall(json.dumps(delta)))


def bare_delta(first: int, last: int) -> dict[str, Any]:
    """Return a delta with one event and nothing else."""
    told = [{"event": f"They go on, {last}", "cause": "", "effect": "", "participants": []}]
    nothing = {"where": "", "notable_environment_changes": []}
    return turn_delta(
        first,
        last,
        location_updates=nothing,
        major_events=told,
        unresolved_threads=[],
        canon_locks=[],
    )


@pytest.fixture(params=["json", "xml"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def set_window(settings: Settings, window: int, llm: str = "openai") -> None:
    settings.LLM = llm
    settings.MODEL = "a-model-nobody-knows"
    settings.MODEL_BY_AGENT = {}
    settings.CONTEXT_WINDOW = window
    settings.MAX_OUTPUT = 1_000
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 10_000


def open_chapter(run_jobs: RunJobs) -> Session:
    chapter = create_chapter()
    change = SetupChange(
        world_text=beat_text(1),
        chapter_text=beat_text(2),
        selected_agent_slots=list(NAMES),
        texts={
            "name": {str(slot): name for slot, name in NAMES.items()},
            "identity_text": {str(slot): reply_text(slot, 40) for slot in NAMES},
        },
    )
    save_setup(chapter.pk, change)
    request_lock(chapter.pk)
    run_jobs()
    return get_chapter(chapter.pk)


def answers(form: str, delta: Callable[[int, int], dict[str, Any]]) -> Callable[..., str]:
    def answer(request: ModelRequest) -> str:
        system, prompt = request.messages[0].content, request.messages[-1].content
        if "turn_delta" in system:
            chunk = prompt.split("## RECENT_CONTEXT_CHUNK")[-1]
            numbers = [int(one) for one in re.findall(r"^(\d+)\) ", chunk, re.MULTILINE)]
            told = delta(numbers[0], numbers[-1])
            return as_xml(told) if form == "xml" else json.dumps(told)
        if "world_chapter_lock" in system:
            return answer_in_form(request)
        return reply_text(len(prompt), 60)

    return answer


def play_to(
    chapter: Session, last: int, run_jobs: RunJobs, beat: Callable[[int], str] = beat_text
) -> None:
    for number in range(chapter.prompt_index + 1, last + 1):
        play(chapter, beat(number), slot=(number - 1) % len(NAMES) + 1)
        run_jobs()


def prompt_to(chapter: Session, provider: ScriptedProvider, slot: int) -> str:
    play(chapter, "The door opens.", slot=slot)
    return "\n".join(message.content for message in provider.history[-1].messages)


def what_it_saw(chapter_id: UUID, prompt: int) -> str:
    address = reverse("pages:prompt-calls", args=[chapter_id, prompt])
    return Client().get(address).content.decode()


TWELVE = [marked_delta(7 * number + 1, 7 * number + 7) for number in range(12)]


@pytest.mark.weekly
def test_every_word_of_memory_stands_in_the_prompt_of_a_large_window_60_turns_later(
    form: str, provider: ScriptedProvider, settings: Settings, run_jobs: RunJobs
) -> None:
    set_window(settings, 128_000)
    provider.fallback = answers(form, lambda a, b: (marked_delta if b <= 84 else bare_delta)(a, b))
    chapter = open_chapter(run_jobs)
    play_to(chapter, 84 + 60, run_jobs)
    told = {slot: prompt_to(chapter, provider, slot) for slot in NAMES}
    facts = set().union(*map(facts_of, TWELVE))
    intents = {one for one in facts if "intent" in one}
    assert facts - set(_FACT.findall(told[1])) == set()
    # Mara did the deeds, and nobody else knows why.
    assert facts - set(_FACT.findall(told[2])) == intents
    assert "left-out" not in what_it_saw(chapter.pk, chapter.prompt_index)


@pytest.mark.weekly
@pytest.mark.parametrize("llm", ["openai", "embedded"])
def test_a_small_window_has_three_quarters_of_the_oldest(
    form: str, llm: str, provider: ScriptedProvider, settings: Settings, run_jobs: RunJobs
) -> None:
    set_window(settings, 8_192, llm)
    provider.fallback = answers(form, marked_delta)
    chapter = open_chapter(run_jobs)
    play_to(chapter, 84, run_jobs)
    told = set(_FACT.findall(prompt_to(chapter, provider, 1)))
    oldest = set().union(*map(facts_of, TWELVE[:3]))
    assert len(told & oldest) >= 0.75 * len(oldest), sorted(oldest - told)


@pytest.mark.weekly
def test_the_record_and_the_page_name_what_a_small_window_left_out(
    provider: ScriptedProvider, settings: Settings, run_jobs: RunJobs
) -> None:
    set_window(settings, 6_000)
    provider.fallback = answers("json", marked_delta)
    chapter = open_chapter(run_jobs)
    play_to(chapter, 84, run_jobs)
    told = set(_FACT.findall(prompt_to(chapter, provider, 1)))
    missing = set().union(*map(facts_of, TWELVE)) - told
    assert missing
    page = what_it_saw(chapter.pk, chapter.prompt_index)
    listed = Client().get(f"/api/session/{chapter.pk}/calls?limit=1").json()["items"][0]["layers"]
    left_out = {layer["name"]: layer["left_out"] for layer in listed}["STRUCTURED_MEMORY"]
    for line in left_out:
        assert line in page
    # Memory does not tell the deeds of the last stretches, because the prompt has these prompts
    # word for word.
    deeds = [int(one.split()[1].split(".")[0]) for one in missing if ".did" in one]
    deeds = [number for number in deeds if number <= 9]
    assert deeds
    for number in deeds:
        last = CHUNK * number
        [line] = [one for one in left_out if one.startswith(f"Prompts {last - 6}-{last}:")]
        assert "deed 1" in line


WORDS = (
    "amber birch clover dusk ember flint grove heron iris jasper kelp larch mica nettle opal plum "
    "quartz reed slate thorn"
)
FACTS = [f"The word on stone {at} is {word}." for at, word in enumerate(WORDS.split(), 1)]


def beat_with_fact(number: int) -> str:
    """Return a beat. Beats 1 to 20 end with a fact."""
    return f"{beat_text(number)} {FACTS[number - 1]}" if number <= len(FACTS) else beat_text(number)


def quoting_delta(chunk: str) -> dict[str, Any]:
    """Return a delta as an exact agent 8 writes it: an event for each beat, which ends as the beat
    does."""
    beats = re.findall(r"^(\d+)\) (.+)$", chunk, re.MULTILINE)
    first, last = int(beats[0][0]), int(beats[-1][0])
    who = [NAMES[first % 3 + 1]]
    told = [
        {"event": beat[-110:], "cause": "", "effect": "", "participants": who} for _, beat in beats
    ]
    light = {"key": "light", "before": "", "after": f"torch {last}", "notes": ""}
    return turn_delta(first, last, major_events=told, state_changes=[light])


@pytest.mark.parametrize(
    ("window", "llm", "most_lost"),
    [(128_000, "openai", 0), (8_192, "openai", 5), (8_192, "embedded", 5)],
)
def test_facts_of_the_first_20_beats_stand_in_prompt_85(
    window: int,
    llm: str,
    most_lost: int,
    provider: ScriptedProvider,
    settings: Settings,
    run_jobs: RunJobs,
) -> None:
    set_window(settings, window, llm)

    def answer(request: ModelRequest) -> str:
        if "turn_delta" in request.messages[0].content:
            chunk = request.messages[-1].content.split("## RECENT_CONTEXT_CHUNK")[-1]
            return json.dumps(quoting_delta(chunk))
        return answers("json", bare_delta)(request)

    provider.fallback = answer
    chapter = open_chapter(run_jobs)
    play_to(chapter, 84, run_jobs, beat_with_fact)
    told = prompt_to(chapter, provider, 1)
    assert [one for one in FACTS if one not in told][most_lost:] == []
