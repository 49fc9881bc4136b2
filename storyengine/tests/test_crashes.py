"""Processes that are killed in the middle of their work: nothing half-written, nothing lost."""

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bench.chapter_client import ChapterClient
from bench.http_calls import call, stream
from bench.program import wait_until
from bench.session_data import setup_of, synthetic_session
from storyengine.tests.running import ScriptedProgram, run_scripted_program

pytestmark = pytest.mark.processes

# A dead worker's lease runs out after 20 seconds; the sweep looks every 15.
RECOVERY_SECONDS = 90


@pytest.fixture(scope="module")
def program() -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        yield running


@pytest.fixture
def chapter(program: ScriptedProgram) -> ChapterClient:
    program.model.clear_faults()
    client = ChapterClient(program.server)
    client.save_setup(setup_of(synthetic_session(10)))
    client.lock(seconds=30)
    return client


def check_tiling(document: dict[str, Any]) -> None:
    """Prompts 1 to n with one user event and a reply each; deltas that tile them exactly once."""
    for index in range(1, document["prompt_index"] + 1):
        roles = [e["role"] for e in document["events"] if e["prompt_index"] == index]
        assert roles == ["user", "agent"]
    covered = [
        index
        for block in document["memory_blocks"]
        if block["type"] == "turn_delta"
        for index in range(block["from_prompt_index"], block["to_prompt_index"] + 1)
    ]
    assert covered == list(range(1, document["last_summarized_prompt_index"] + 1))


def test_a_worker_killed_while_summarising_and_while_narrating(
    program: ScriptedProgram, chapter: ChapterClient
) -> None:
    program.model.queue_faults("hang", agent=8)
    for number in range(1, 8):
        chapter.prompt(1, f"Beat {number}.")
    wait_until(lambda: is_being_called(program, 8), "the summary", seconds=30)
    program.processes.kill("worker")
    chapter.prompt(2, "Play goes on meanwhile.")
    program.restart("worker")
    chapter.wait_for_memory(7, seconds=RECOVERY_SECONDS)
    document = chapter.read()
    assert document["prompt_index"] == 8
    check_tiling(document)

    chapter.end(seconds=60)
    program.model.queue_faults("hang", agent=9)
    narration = threading.Thread(
        target=chapter.build_narrative, args=("", 2_600), kwargs={"seconds": RECOVERY_SECONDS}
    )
    narration.start()
    wait_until(lambda: chapter.read()["state"] == "NARRATING", "the narration", seconds=30)
    wait_until(lambda: is_being_called(program, 9), "the narrator", seconds=30)
    program.processes.kill("worker")
    program.restart("worker")
    narration.join(timeout=RECOVERY_SECONDS)
    document = chapter.read()
    assert document["state"] == "ENDED"
    assert len(document["narrative_drafts"]) == 1
    check_tiling(document)


def test_a_web_process_killed_in_the_middle_of_a_reply(
    program: ScriptedProgram, chapter: ChapterClient
) -> None:
    program.model.queue_faults("slow", agent=1)
    path = f"/api/session/{chapter.session_id}"
    events = stream(
        program.server,
        f"{path}/prompt",
        {"agent_slot": 1, "user_text": "The lamp goes out."},
        headers={"Idempotency-Key": "the-form-s-id"},
        timeout=60,
    )
    assert next(events).name == "token"
    wait_until(lambda: bool(chapter.read()["pending_turn"]["partial_text"]), "a flush", seconds=20)
    program.processes.kill("web")
    program.restart("web")
    wait_until(lambda: is_served(program), "the pages", seconds=60)
    wait_until(lambda: chapter.read()["pending_turn"]["status"] == "failed", "it", seconds=60)
    document = chapter.read()
    assert document["prompt_index"] == 0
    assert document["events"] == []
    assert document["pending_turn"]["user_text"] == "The lamp goes out."
    assert document["pending_turn"]["partial_text"]
    retried = call(
        program.server,
        "POST",
        f"{path}/prompt",
        {"agent_slot": 1, "user_text": "The lamp goes out."},
        headers={"Idempotency-Key": "the-form-s-id"},
        timeout=60,
    )
    assert retried.status == 201
    check_tiling(chapter.read())


def is_being_called(program: ScriptedProgram, agent: int) -> bool:
    """The hanging call is not in the log yet, but its fault was taken from the queue."""
    return all(wanted != agent for _name, wanted in program.model.queued_faults)


def is_served(program: ScriptedProgram) -> bool:
    try:
        return call(program.server, "GET", "/healthz", timeout=5).status == 200
    except OSError:
        return False
