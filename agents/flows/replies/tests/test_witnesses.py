"""A character's prompt has all that the character witnessed or was told, and nothing else.

The texts contain marked words. A stand-in for agent 8 copies the marked words of its request into a
memory block, so that the block shows which words agent 8 was sent.
"""

import json
import re
from collections.abc import Callable, Collection

import pytest
from asgiref.sync import async_to_sync
from pytest_django import Settings

from agents.calling.model_access import model_of
from agents.calling.tests.bookkeeping import expire
from agents.flows.remembering.summarizing import queue_due_summary, write_memory_deltas
from agents.flows.replies.dry_run import look_ahead
from agents.flows.replies.tests.trying import try_again
from agents.flows.replies.warmup import _compose_start
from agents.flows.tests.playing import play
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job
from agents.modes.registry import all_modes
from agents.prompting.declarations import NARRATOR
from agents.prompting.layers import Layer, Tier
from agents.prompting.sandwich import Subject, compose
from agents.running.job_kinds import Watch
from agents.running.jobs import claim
from agents.running.recovery import recover
from agents.tests.declared import CHARACTERS
from agents.tests.replies import answer_in_form, turn_delta, world_lock
from memory.blocks import stretches
from memory.blocks.blocks import counting_deltas, knows
from memory.blocks.stretches import Stretch, StretchRule, audiences_in
from memory.tests.factories import add_lock
from sessions.models import THOUGHT, Attempt, Session, State
from sessions.play.attempts import Writer, open_prompt
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
MARK = re.compile(r"zq[0-9a-z]+")
ROOM = 1_000_000
SECRET = "zq7secret"
MODELS = [
    ("openai", "gpt-5.2", "full"),
    ("openai", "nobody-knows", "medium"),
    ("openai", "llama-3.2-3b-instruct", "minimal"),
]


def parrot(request: ModelRequest) -> str:
    """Answer a request to agent 8 with all its marked words, and any other request without marked
    words."""
    if "turn_delta" not in request.messages[0].content:
        return answer_in_form(request)
    marks = sorted(marks_of(" ".join(message.content for message in request.messages)))
    sworn = [f"somebody spoke of {' and '.join(some)}" for some in in_tens(marks)]
    return json.dumps(turn_delta(canon_locks=sworn, major_events=[], unresolved_threads=[]))


def in_tens(marks: list[str]) -> list[list[str]]:
    return [marks[at : at + 10] for at in range(0, len(marks), 10)]


def marks_of(text: str) -> set[str]:
    return set(MARK.findall(text))


def told(layers: Collection[Layer]) -> set[str]:
    return marks_of(" ".join(piece.text for layer in layers for piece in layer.pieces))


def prompt_of(
    chapter: Session, slot: int | None, tier: Tier, before: int | None = None
) -> set[str]:
    """Return the marked words of a request whose new prompt asks for everything that was said."""
    agent = NARRATOR if slot is None else CHARACTERS[slot]
    words = " ".join(chapter.events.values_list("text", flat=True))
    attempt = Attempt(session=chapter, actor=slot, words=words)
    subject = Subject(chapter, slot, before, attempt, budget_tokens=ROOM)
    return told(compose(agent.layers, subject, tier))


def sent(request: ModelRequest) -> str:
    return " ".join(message.content for message in request.messages)


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    provider.fallback = parrot
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    return chapter


@pytest.mark.parametrize(("llm", "model", "tier"), MODELS)
def test_a_word_for_two_of_three_reaches_no_prompt_of_the_third(
    chapter: Session,
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    settings: Settings,
    llm: str,
    model: str,
    tier: str,
) -> None:
    settings.LLM, settings.MODEL = llm, model
    settings.MODEL_BY_AGENT = {}
    assert model_of(CHARACTERS[1]).tier == tier
    play(chapter, "It begins.", slot=3)
    play(chapter, f"She shows it: {SECRET}.", slot=1, witnesses=[2])
    assert chapter.attempts.latest("submitted_at").witnesses == [1, 2]
    asked: dict[int, list[str]] = {1: [], 2: [], 3: []}
    for number in range(3, 33):
        slot = (number - 1) % 3 + 1
        before = len(provider.history)
        attempt = play(chapter, f"Beat {number}.", slot=slot)
        assert attempt.status == "committed", attempt.error
        asked[slot].append(sent(provider.history[before]))
        run_jobs()
        chapter.refresh_from_db()
        for one in chapter.selected_agent_slots:
            start = told(_compose_start(chapter.pk, one))
            run = look_ahead(chapter, agent_slot=one, user_text="Who shows what?")
            seen = marks_of(" ".join(part.text for part in run.layers))
            assert (start, seen) == (({SECRET},) * 2 if one != 3 else (set(), set()))
    assert not any(SECRET in prompt for prompt in asked[3])
    assert all(SECRET in prompt for prompt in asked[1] + asked[2])
    # Thirty turns later, the memory block for characters 1 and 2 still has the secret.
    assert chapter.last_summarized_prompt_index == 28
    [private] = chapter.memory_blocks.filter(json_payload__icontains=SECRET, to_prompt_index=7)
    assert private.audience == [1, 2]
    assert private.json_payload["canon_locks"] == [f"somebody spoke of {SECRET}"]
    if llm == "openai":
        try_again(chapter, "A priest.", name="AGENT_IDENTITY")
        assert (SECRET in sent(provider.history[-1])) == (
            chapter.turns.get(number=32).chosen.actor != 3
        )
    assert prompt_of(chapter, None, "medium") == {SECRET}


def calls_of_memory(provider: ScriptedProvider) -> int:
    return sum("turn_delta" in one.messages[0].content for one in provider.history)


WITNESSES = [None, [1, 2], [3], None, [1, 2], [2, 3], None]


def play_seven(chapter: Session) -> None:
    for number, witnesses in enumerate(WITNESSES, start=1):
        slot = witnesses[0] if witnesses else 1
        play(chapter, f"Beat zq{number}.", slot=slot, witnesses=witnesses)


def test_each_set_of_witnesses_is_told_once_the_widest_first(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_seven(chapter)
    run_jobs()
    calls = [
        marks_of(sent(one)) for one in provider.history if "turn_delta" in one.messages[0].content
    ]
    everybody = {"zq1", "zq4", "zq7"}
    assert calls == [
        everybody,
        everybody | {"zq2", "zq5"},
        everybody | {"zq6"},
        # Both characters 2 and 3 know zq6, so only zq3 is new in the call for character 3 alone.
        everybody | {"zq3", "zq6"},
    ]
    deltas = list(counting_deltas(chapter))
    # They are read in the order of the last prompts that they tell: 3, 5, 6 and 7.
    assert [delta.audience for delta in deltas] == [[3], [1, 2], [2, 3], [1, 2, 3]]
    assert {(delta.from_prompt_index, delta.to_prompt_index) for delta in deltas} == {(1, 7)}
    chapter.refresh_from_db()
    assert (chapter.last_summarized_prompt_index, chapter.state) == (7, State.ACTIVE)
    assert Job.objects.get(kind=Job.Kind.SUMMARIZE).finished_deltas == []


def test_an_entry_comes_only_from_prompts_that_its_readers_witnessed(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    def answer(request: ModelRequest) -> str:
        if "turn_delta" not in request.messages[0].content:
            return answer_in_form(request)
        event = {"event": "it happened", "cause": "", "effect": "", "participants": []}
        return json.dumps(turn_delta(major_events=[event | {"at": list(range(20))}]))

    provider.fallback = answer
    play_seven(chapter)
    run_jobs()
    found = {
        tuple(delta.audience or ()): delta.json_payload["major_events"][0]["at"]
        for delta in counting_deltas(chapter)
    }
    assert found == {(1, 2, 3): [1, 4, 7], (1, 2): [2, 5], (2, 3): [6], (3,): [3]}
    schemas = [one.json_schema for one in provider.history if one.json_schema]
    asked = [
        one["properties"]["major_events"]["items"]["properties"]["at"]["items"]["enum"]
        for one in schemas
    ]
    assert asked == [[1, 4, 7], [2, 5], [6], [3]]


def test_a_killed_worker_leaves_its_finished_call_to_the_next(
    chapter: Session, provider: ScriptedProvider, run_jobs: RunJobs
) -> None:
    play_seven(chapter)
    job = claim(Job.objects.get(kind=Job.Kind.SUMMARIZE).pk)
    assert job is not None
    provider.enqueue(Script(json.dumps(turn_delta(canon_locks=["once"]))), KeyboardInterrupt())  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        async_to_sync(write_memory_deltas)(job, Watch())
    expire(job)
    recover()
    run_jobs()
    check_told_once(chapter, provider, failed=1)


def check_told_once(chapter: Session, provider: ScriptedProvider, *, failed: int) -> None:
    assert calls_of_memory(provider) == len(audiences_in(chapter, Stretch(1, 7))) + failed
    deltas = list(counting_deltas(chapter))
    assert [delta.audience for delta in deltas] == [[3], [1, 2], [2, 3], [1, 2, 3]]
    assert deltas[-1].json_payload["canon_locks"] == ["once"]
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 7


@pytest.mark.parametrize("for_characters", [True, False])
def test_a_stretch_with_nothing_to_tell_is_known_to_those_for_whom_memory_is_written(
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    monkeypatch: pytest.MonkeyPatch,
    for_characters: bool,
) -> None:
    # The modes are read before the rule is set, because reading them later would replace the rule.
    all_modes()
    rule = StretchRule(for_characters=for_characters)
    monkeypatch.setitem(stretches._rules, "gamemaster", rule)
    chapter = make_active_chapter(chunk_size_prompts=3)
    add_lock(chapter, world_lock())
    for number in range(3):
        thinking = open_prompt(
            chapter.pk,
            actor=2,
            words="",
            submission_key=str(number),
            answers=lambda chapter, actor: Writer(actor, needs_words=False),
        )
        assert commit_attempt(thinking.attempt, [NewEvent("Never.", 2, kind=THOUGHT)])
    chapter.refresh_from_db()
    assert queue_due_summary(chapter)
    run_jobs()
    assert not provider.history
    delta = counting_deltas(chapter).get()
    assert delta.audience == ([1, 2, 3] if for_characters else [])
    assert knows(delta.audience, [2]) == for_characters
