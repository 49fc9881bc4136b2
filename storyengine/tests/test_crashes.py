"""Tests that no work is lost or stored in part when a process ends in the middle of it."""

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.chapter_client import ChapterClient
from testing.http_calls import call, stream
from testing.program import wait_until
from testing.session_data import setup_of, synthetic_session

pytestmark = [pytest.mark.processes, pytest.mark.each_run]

# The lease of a dead worker runs out after 20 seconds, and the sweep runs every 15 seconds.
RECOVERY_SECONDS = 90
# The longest wait for the end of a worker. A worker needs one second, and more on a busy machine.
STOP_SECONDS = 20


@pytest.fixture(scope="module")
def program() -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        yield running


@pytest.fixture(scope="module")
def small_program() -> Iterator[ScriptedProgram]:
    """Yield a program whose model has a small window, so that the narrator writes each scene in a
    call of its own."""
    with run_scripted_program(context_window=8_192, max_output=1_000) as running:
        yield running


@pytest.fixture(scope="module")
def program_of_two_modes() -> Iterator[ScriptedProgram]:
    """Yield a program that also has the lighthouse. After the words "Keep watch", its keepers act
    in turn."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("DJANGO_SETTINGS_MODULE", "storyengine.tests.settings_with_lighthouse")
        with run_scripted_program() as running:
            yield running


@pytest.fixture
def chapter(program: ScriptedProgram) -> ChapterClient:
    return locked_chapter(program)


def locked_chapter(program: ScriptedProgram) -> ChapterClient:
    program.model.clear_faults()
    client = ChapterClient(program.server)
    client.save_setup(setup_of(synthetic_session(10)))
    client.lock(seconds=30)
    return client


@contextmanager
def narration(chapter: ChapterClient, target_words: int) -> Iterator[None]:
    """Ask for a narrative in another thread while the body runs. At the end, raise the error of
    this thread if there was one."""
    thread = ThreadPoolExecutor(1)
    build = thread.submit(chapter.build_narrative, "", target_words, seconds=RECOVERY_SECONDS)
    try:
        yield
        build.result(timeout=RECOVERY_SECONDS)
    finally:
        thread.shutdown(wait=False)


def scene_of(chapter: ChapterClient) -> int:
    return int(job_of(chapter, "narrate")["progress"].get("scene", 0))


def job_of(chapter: ChapterClient, kind: str) -> dict[str, Any]:
    job: dict[str, Any] = next(job for job in chapter.read()["jobs"] if job["kind"] == kind)
    return job


def check_tiling(document: dict[str, Any]) -> None:
    """Check that each prompt has its words and one reply, and that each prompt up to the summary
    pointer is in exactly one delta."""
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
    with narration(chapter, 2_600):
        wait_until(lambda: chapter.read()["state"] == "NARRATING", "the narration", seconds=30)
        wait_until(lambda: is_being_called(program, 9), "the narrator", seconds=30)
        program.processes.kill("worker")
        program.restart("worker")
    document = chapter.read()
    assert document["state"] == "ENDED"
    assert len(document["narrative_drafts"]) == 1
    check_tiling(document)


@pytest.mark.parametrize("ending", ["killed", "stopped"])
def test_scenes_that_were_written_before_a_worker_ended_are_not_written_again(
    small_program: ScriptedProgram, ending: str
) -> None:
    program, chapter = small_program, locked_chapter(small_program)
    for number in range(1, 15):
        chapter.prompt(1, f"Beat {number}.")
    chapter.end(seconds=60)
    before = len(calls_of_narrator(program))
    # Each answer is slow, so that the test notices the end of the first scene before the second
    # scene ends.
    program.model.timing.first_token_ms = 1_000
    with narration(chapter, 2_200):
        wait_until(lambda: len(calls_of_narrator(program)) > before, "a scene", seconds=60)
        program.model.queue_faults("hang", agent=9)
        wait_until(lambda: is_being_called(program, 9), "the next scene", seconds=60)
        program.model.timing.first_token_ms = 0
        written = len(calls_of_narrator(program)) - before
        wait_until(lambda: scene_of(chapter) == written + 1, "the page to know", seconds=30)
        scenes = job_of(chapter, "narrate")["progress"]["scenes"]
        assert 0 < written < scenes
        if ending == "killed":
            program.processes.kill("worker")
        else:
            stop_worker(program)
            assert chapter.read()["state"] == "NARRATING"
            assert job_of(chapter, "narrate")["status"] == "queued"
            assert job_of(chapter, "narrate")["error"] == ""
        program.restart("worker")
    document = chapter.read()
    assert document["state"] == "ENDED"
    assert len(document["narrative_drafts"]) == 1
    # The narrator's finished calls are as many as the scenes. So no scene was written twice.
    assert len(calls_of_narrator(program)) - before == scenes


@pytest.mark.parametrize(("agent", "kind"), [(0, "lock"), (8, "summarize")])
def test_a_worker_that_is_stopped_fails_no_job(
    program: ScriptedProgram, agent: int, kind: str
) -> None:
    program.model.clear_faults()
    chapter = ChapterClient(program.server)
    chapter.save_setup(setup_of(synthetic_session(10)))
    if kind == "summarize":
        chapter.lock(seconds=30)
    program.model.queue_faults("hang", agent=agent)
    thread = ThreadPoolExecutor(1)
    if kind == "lock":
        waiting = thread.submit(chapter.lock, seconds=RECOVERY_SECONDS)
    else:
        for number in range(1, 8):
            chapter.prompt(1, f"Beat {number}.")
        waiting = thread.submit(chapter.wait_for_memory, 7, seconds=RECOVERY_SECONDS)
    thread.shutdown(wait=False)
    wait_until(lambda: is_being_called(program, agent), kind, seconds=30)
    stop_worker(program)
    job = job_of(chapter, kind)
    assert (job["status"], job["error"]) == ("queued", "")
    program.restart("worker")
    waiting.result(timeout=RECOVERY_SECONDS)
    check_tiling(chapter.read())


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


def test_a_web_process_that_is_stopped_keeps_each_word_that_was_shown(
    program: ScriptedProgram, chapter: ChapterClient
) -> None:
    program.model.queue_faults("slow", agent=1)
    path = f"/api/session/{chapter.session_id}/prompt"
    body = {"agent_slot": 1, "user_text": "The lamp goes out."}
    events = stream(program.server, path, body, timeout=60)
    shown = [next(events)]
    os.killpg(program.processes.by_name["web"].pid, signal.SIGTERM)
    shown += events
    program.restart("web")
    wait_until(lambda: is_served(program), "the pages", seconds=60)
    pending = chapter.read()["pending_turn"]
    assert (pending["status"], shown[-1].name) == ("failed", "error")
    assert pending["partial_text"] == "".join(
        json.loads(event.data)["text"] for event in shown[:-1]
    )


@pytest.mark.parametrize("moment", ["between", "writing"])
def test_who_acts_alone_goes_on_after_a_kill_and_no_turn_is_played_twice(
    program_of_two_modes: ScriptedProgram, moment: str
) -> None:
    program = program_of_two_modes
    program.model.clear_faults()
    chapter = ChapterClient(program.server, mode="lighthouse")
    chapter.save_setup(setup_of(synthetic_session(10)))
    before = len(finished_calls(program))
    if moment == "between":
        # The commit of the first turn stores the job of the next turn. No worker runs that could
        # take the job, and the web process is killed.
        program.processes.kill("worker")
        chapter.prompt(1, "Keep watch")
        program.processes.kill("web")
        program.restart("web")
        wait_until(lambda: is_served(program), "the pages", seconds=60)
        assert (chapter.read()["prompt_index"], job_of(chapter, "go_on")["status"]) == (1, "queued")
    else:
        program.model.queue_faults("delay", "hang", agent=1)
        chapter.prompt(1, "Keep watch")
        wait_until(lambda: is_being_called(program, 1), "the second turn", seconds=30)
        program.processes.kill("worker")
    program.restart("worker")
    wait_until(
        lambda: (
            chapter.read()["prompt_index"] == 3 and job_of(chapter, "go_on")["status"] == "done"
        ),
        "the turns alone",
        seconds=RECOVERY_SECONDS,
    )
    path = f"/api/session/{chapter.session_id}/turns"
    for number, words in enumerate(["Keep watch", "", ""], start=1):
        [attempt] = call(program.server, "GET", f"{path}/{number}", timeout=60).json()["attempts"]
        assert (attempt["words"], attempt["status"]) == (words, "committed")
    assert len(finished_calls(program)) - before == 3


def finished_calls(program: ScriptedProgram) -> list[dict[str, Any]]:
    return [call for call in program.model.calls if call["fault"] != "hang"]


def stop_worker(program: ScriptedProgram) -> None:
    """Stop the worker with the signal that honcho sends after Ctrl-C."""
    worker = program.processes.by_name["worker"]
    os.killpg(worker.pid, signal.SIGTERM)
    worker.wait(timeout=STOP_SECONDS)


def calls_of_narrator(program: ScriptedProgram) -> list[dict[str, Any]]:
    """Return the finished calls of the narrator that had no fault."""
    return [call for call in program.model.calls if call["agent"] == 9 and not call["fault"]]


def is_being_called(program: ScriptedProgram, agent: int) -> bool:
    """Return whether a call of this agent has reached the model server. The server removes the
    agent's fault from its queue when the call arrives."""
    return all(wanted != agent for _name, wanted in program.model.queued_faults)


def is_served(program: ScriptedProgram) -> bool:
    try:
        return call(program.server, "GET", "/healthz", timeout=5).status == 200
    except OSError:
        return False
