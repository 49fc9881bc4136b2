"""The first minute with the embedded model that the program runs by default.

The model is large, so these tests run only where its weights have been fetched already, as by
`make run`.
"""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from agents.llm.embedded.catalogue import QWEN
from agents.llm.embedded.weights import cache_folder
from sessions.chapter.starters import Starter, all_starters
from storyengine.tests.running import RunningProgram, run_program
from testing.chapter_client import POLL_SECONDS, ChapterClient
from testing.http_calls import call

pytestmark = [
    pytest.mark.real_model,
    pytest.mark.processes,
    pytest.mark.skipif(
        not (cache_folder() / f"{QWEN.name}.gguf").exists(),
        reason="the weights of the default model have not been fetched here",
    ),
]

# The most tokens of a starter's first prompt by the model's own count, and the least part of them
# that must be cached by the time at which a newcomer has read the beginning.
MOST_TOKENS, LEAST_CACHED = 1_200, 0.9
# The tests fail if the model needs longer than this. It is far more than any machine should need.
PATIENCE_SECONDS = 600.0
# The number of beginnings that the test plays until the model has counted one.
TRIES = 4


@pytest.fixture(scope="module")
def program() -> Iterator[RunningProgram]:
    environment = {"STORYENGINE_LLM": "embedded", "STORYENGINE_EMBEDDED_MODEL": QWEN.name}
    with run_program(environment) as running:
        # The notice about the model is gone once the model is ready.
        wait_for(lambda: not call(running.server, "GET", "/model-status").body.strip())
        yield running


@pytest.mark.parametrize("starter", all_starters(), ids=lambda one: one.name)
def test_the_suggested_prompt_is_short_and_was_read_ahead(
    program: RunningProgram, starter: Starter, record_property: Callable[[str, object], None]
) -> None:
    # The server counts a request at the end of its answer. If the program stops an answer that
    # breaks a rule, there is no count, and the test plays the beginning again.
    for _ in range(TRIES):
        read_ahead, reply = _play_the_beginning(program, starter)
        if reply["input_tokens"] is not None:
            break
    # The times differ from machine to machine, so they are only recorded (`--junit-xml`).
    record_property("seconds until it was read", read_ahead["duration_ms"] / 1000)
    record_property("seconds to the first word", reply["first_token_ms"] / 1000)
    assert reply["input_tokens"] <= MOST_TOKENS
    assert reply["cached_tokens"] >= LEAST_CACHED * reply["input_tokens"]


def _play_the_beginning(
    program: RunningProgram, starter: Starter
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Send the suggested prompt in a new chapter. Return the call that read it ahead, and the first
    call of its reply."""
    chapter = ChapterClient(program.server, starter=starter.name)
    wait_for(lambda: any(one["outcome"] == "warm-up" for one in chapter.calls()))
    [read_ahead] = chapter.calls()
    chapter.prompt(starter.slot_of(starter.next.to), starter.next.prompt)
    # Afterwards the model may be asked once more for the same reply, and may already be reading
    # ahead for the next character.
    reply, *_ = [one for one in chapter.calls() if one["turn_id"]]
    return read_ahead, reply


def wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "The model took too long."
        time.sleep(POLL_SECONDS)
