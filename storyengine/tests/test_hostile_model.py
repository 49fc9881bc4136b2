"""Tests of the whole program with a model server that sends hostile answers.

Replies and jobs of the worker receive these answers at the same time.
"""

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from agents.llm.providers.tests.hostile_server import (
    ANSWERS,
    HostileAnswer,
    HostileServer,
    hostile_server,
)
from storyengine.tests.running import RunningProgram, run_program
from testing.chapter_client import ChapterClient
from testing.http_calls import Answer, Server, call
from testing.model_replies import ModelReplies
from testing.session_data import setup_of, synthetic_session

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="measures with /proc"),
]

LEAST_ANSWERS = 40
# The limits that the program must keep.
MOST_GROWTH_MB = 100
LONGEST_ANSWER_SECONDS = 2.0
PAUSE_SECONDS = 0.1
WAIT = {"Prefer": "wait=60"}
SETUP = setup_of(synthetic_session(10))
# Six threads try prompts and six threads try locks, because each thread mostly waits in the pauses
# before retries. The worker has four threads of its own, so it does four jobs at once.
LANES = range(6)
Answers = Iterator[tuple[str, HostileAnswer]]


@dataclass(frozen=True)
class HarmedProgram(RunningProgram):
    model: HostileServer
    # One chapter in play for each thread that tries prompts. The prompts go to the character whose
    # slot is the number of the thread plus one.
    chapters: tuple[ChapterClient, ...]


def write(body: dict[str, Any]) -> str:
    messages = [str(message["content"]) for message in body["messages"]]
    return ModelReplies(None, chapter_words=300).text_for(int(body["model"][-1]), messages)


@pytest.fixture(scope="module")
def program() -> Iterator[HarmedProgram]:
    with hostile_server(write) as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": "128000",
            # The program reads more of an answer if this number is larger. The number is small, so
            # that the test is short.
            "STORYENGINE_MAX_OUTPUT": "200",
            "STORYENGINE_CALLS_PER_MINUTE": "100000",
            "STORYENGINE_CHAPTER_CALLS_PER_MINUTE": "100000",
            **{f"STORYENGINE_MODEL_AGENT_{n}": f"agent-{n}" for n in range(10)},
        }
        with run_program(environment) as running:
            chapters = tuple(ChapterClient(running.server) for _ in LANES)
            for chapter in chapters:
                chapter.save_setup(SETUP)
                chapter.lock(seconds=30)
                chapter.prompt(1, "The door opens.")
            yield HarmedProgram(running.server, running.processes, model, chapters)


@contextmanager
def little_memory(program: RunningProgram) -> Iterator[None]:
    """Check that the web process and the worker need little more memory while the body runs."""
    before = {}
    for name in ("web", "worker"):
        folder = Path("/proc", str(program.processes.by_name[name].pid))
        # From here on, the kernel measures the highest use of memory anew.
        (folder / "clear_refs").write_text("5")
        before[folder] = _megabytes(folder, "VmRSS")
    yield
    grown = {str(folder): _megabytes(folder, "VmHWM") - mb for folder, mb in before.items()}
    assert max(grown.values()) < MOST_GROWTH_MB, grown


def _megabytes(folder: Path, name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+) kB", (folder / "status").read_text())
    assert found
    return int(found[1]) / 1024


@contextmanager
def quick_health(server: Server) -> Iterator[None]:
    """Check that the health check answers quickly while the body runs."""
    seconds: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(PAUSE_SECONDS):
            answer = call(server, "GET", "/healthz")
            assert answer.status == 200
            seconds.append(answer.seconds)

    with ThreadPoolExecutor(1) as thread:
        watching = thread.submit(watch)
        try:
            yield
        finally:
            is_over.set()
        watching.result()
    assert max(seconds) < LONGEST_ANSWER_SECONDS


def play(program: HarmedProgram, lane: int, answers: Answers) -> None:
    """Check that each hostile answer to a prompt has the expected effect, and that the next prompt
    works."""
    chapter, slot = program.chapters[lane], lane + 1
    path = f"/api/session/{chapter.session_id}/prompt"
    for name, answer in answers:
        with harm(program.model, f'"agent-{slot}"', answer):
            beat = {"agent_slot": slot, "user_text": f"It sends {name}."}
            told = call(program.server, "POST", path, beat)
        if answer.told:
            assert told.status == 502, (name, told.body[:500])
            assert answer.told in words_of(told), name
        else:
            assert told.status == 201, (name, told.body[:500])
        chapter.prompt(slot, "The lamp is lit.")


def lock(program: HarmedProgram, lane: int, answers: Answers) -> None:
    """Check that a lock ends with a message after each hostile answer, and that the next try
    works."""
    for name, answer in answers:
        chapter = ChapterClient(program.server)
        words = f"The lamp of lane {lane} is dark."
        chapter.save_setup(replace(SETUP, world_text=words))
        path = f"/api/session/{chapter.session_id}/lock"
        with harm(program.model, words, answer):
            told = call(program.server, "POST", path, headers=WAIT, timeout=90)
        # No hostile answer describes a world, so the lock cannot succeed with it.
        assert told.status == 502, (name, told.body[:500])
        assert words_of(told), name
        again = call(program.server, "POST", path, headers=WAIT, timeout=90)
        assert again.status == 200, (name, again.body[:500])


@contextmanager
def harm(model: HostileServer, words: str, answer: HostileAnswer) -> Iterator[None]:
    model.answers[words] = answer
    try:
        yield
    finally:
        del model.answers[words]


def words_of(answer: Answer) -> str:
    """Return the message for the Game Master in the answer to a failed request."""
    detail = str(answer.json()["detail"])
    assert "The program itself failed" not in detail
    assert len(detail) < 700
    return detail


def test_its_answers_take_little_and_end_in_words(program: HarmedProgram) -> None:
    """One running program gets all hostile answers, so that their effects on its memory add up."""
    answers = [
        (f"{kind}: {name}", answer)
        for kind, named in ANSWERS.items()
        for name, answer in named.items()
    ]
    assert len(answers) >= LEAST_ANSWERS
    with ExitStack() as bounds:
        bounds.enter_context(little_memory(program))
        bounds.enter_context(quick_health(program.server))
        threads = bounds.enter_context(ThreadPoolExecutor(2 * len(LANES)))
        running = []
        for flow in (play, lock):
            # The threads share one iterator of answers. With fixed shares, a thread with slow
            # answers would still work when the others have finished.
            waiting = iter(answers)
            running += [threads.submit(flow, program, lane, waiting) for lane in LANES]
        for each in running:
            each.result()
