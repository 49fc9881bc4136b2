"""The fold test of a chapter during which processes are killed.

The whole program runs, and is asked through its API. While agent 8 writes, the worker is killed,
and while a character answers, the web process. Both are started again.
"""

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from typing import Any

from bench.fold_agent import ExactAgent
from bench.fold_reading import Asking, Tally, check_leaks, check_prompt
from bench.fold_story import CAST, Turn, Writer
from testing.chapter_client import ChapterClient
from testing.fake_server import start_fake_server
from testing.http_calls import RunError, call, expect
from testing.model_replies import ModelReplies
from testing.program import (
    Processes,
    answers,
    open_processes,
    start_named,
    start_program,
    wait_until,
)
from testing.session_data import Setup

STAGE = "after kills"
TURNS = 28
_SUBJECTS, _CAST, _STRETCH = 24, 4, 7
_WINDOWS = (128_000, 32_000, 6_000)
# The model is slow enough to be met in the middle of an answer.
_FIRST_TOKEN_MS, _TOKENS_PER_SECOND = 300, 400
# The lease of a dead process runs out after 20 seconds, and the sweep runs every 15 seconds.
_RECOVERY_SECONDS = 180
# In every stretch the web process is killed during the reply to this prompt.
_KILLED_REPLY = 3
CREATED = 201


class StoryReplies(ModelReplies):
    """Answers as the story has it. `is_remembering` is set when agent 8 is called."""

    def __init__(self, agent: ExactAgent, tally: Tally) -> None:
        super().__init__(None, chapter_words=300)
        self.is_remembering = threading.Event()
        self.is_answering = threading.Event()
        self._agent = agent
        self._tally = tally

    def text_for(self, agent: int, messages: Sequence[str]) -> str:
        if agent == 8:
            delta, audience = self._agent.delta(messages[-1])
            check_leaks(messages[-1], audience, self._agent.story, self._tally)
            self.is_remembering.set()
            return json.dumps(delta)
        if 1 <= agent <= len(CAST):
            self.is_answering.set()
            return self._agent.reply(messages[-1])
        return super().text_for(agent, messages)


@dataclass
class Kills:
    """How many replies and summaries were broken off by a kill, of those that should have been."""

    replies: int = 0
    summaries: int = 0
    planned: int = 0


def play_with_kills(seed: int) -> tuple[dict[int, Tally], Kills]:
    """Return what was counted, by window, and the kills."""
    writer = Writer(seed, subjects=_SUBJECTS, cast=_CAST)
    agent, tallies = ExactAgent(writer.story), {window: Tally() for window in _WINDOWS}
    replies = StoryReplies(agent, tallies[_WINDOWS[0]])
    with start_fake_server(
        first_token_ms=_FIRST_TOKEN_MS, tokens_per_second=_TOKENS_PER_SECOND
    ) as model:
        model.replies = replies
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_API_KEY": "unused",
            "OPENAI_BASE_URL": model.base_url,
            "STORYENGINE_CONTEXT_WINDOW": str(_WINDOWS[0]),
            "STORYENGINE_MAX_OUTPUT": "1000",
            **{f"STORYENGINE_MODEL_AGENT_{number}": f"agent-{number}" for number in range(10)},
        }
        with open_processes(environment) as processes:
            killed = _KilledChapter(processes, writer, replies)
            for _ in range(TURNS):
                killed.play()
            for window in _WINDOWS:
                killed.restart_with(window)
                for reader in writer.story.readers:
                    asking = killed.ask(reader)
                    check_prompt(asking, writer.story, agent.written, tallies[window])
    return tallies, killed.kills


class _KilledChapter:
    def __init__(self, processes: Processes, writer: Writer, replies: StoryReplies) -> None:
        self._processes = processes
        self._writer = writer
        self._replies = replies
        self.kills = Kills()
        self._server = start_program(processes)
        self._client = ChapterClient(self._server)
        self._path = f"/api/session/{self._client.session_id}"
        names = {str(slot): CAST[slot - 1] for slot in writer.story.readers}
        identities = {slot: f"{name} is stubborn." for slot, name in names.items()}
        setup = Setup("A village.", "A storm is coming.", identities, names)
        self._client.save_setup(setup)
        self._client.lock(seconds=60)

    def play(self) -> None:
        """Play the next turn, and perhaps kill a process meanwhile. At the end of a stretch, wait
        for its memory."""
        turn = self._writer.next_turn()
        self._writer.story.add(turn)
        self._replies.is_remembering.clear()
        self._replies.is_answering.clear()
        if turn.number % _STRETCH == _KILLED_REPLY:
            self.kills.planned += 1
            with self._killing("web", self._replies.is_answering):
                self.kills.replies += self._send(turn) != CREATED
        while self._send(turn) != CREATED:
            time.sleep(1)
        if not turn.number % _STRETCH:
            self.kills.planned += 1
            with self._killing("worker", self._replies.is_remembering):
                pass
            self.kills.summaries += self._covered() < turn.number
            self._client.wait_for_memory(turn.number, seconds=_RECOVERY_SECONDS)

    def restart_with(self, window: int) -> None:
        self._processes.environment["STORYENGINE_CONTEXT_WINDOW"] = str(window)
        self._processes.kill("web")
        self._start("web")

    def ask(self, reader: int) -> Asking:
        """Return the exact prompt that the character would be sent now."""
        body = {"agent_slot": reader, "user_text": "What now?"}
        run = expect(200, call(self._server, "POST", f"{self._path}/dry-run", body))
        chapter = self._client.read()
        memory = [layer for layer in run["layers"] if layer["name"] == "STRUCTURED_MEMORY"]
        return Asking(
            text="\n\n".join(layer["text"] for layer in run["layers"]),
            reader=reader,
            turn=chapter["prompt_index"],
            covered=chapter["last_summarized_prompt_index"],
            is_whole=not any(layer["dropped"] for layer in memory),
        )

    @contextmanager
    def _killing(self, name: str, when: threading.Event) -> Iterator[None]:
        """Kill the process as soon as the event is set, while the body runs or after it."""
        killed = threading.Thread(target=self._kill, args=(name, when))
        killed.start()
        yield
        killed.join()
        self._start(name)

    def _kill(self, name: str, when: threading.Event) -> None:
        if when.wait(_RECOVERY_SECONDS):
            self._processes.kill(name)

    def _start(self, name: str) -> None:
        start_named(self._processes, [name])
        wait_until(lambda: answers(self._server), "the pages after a kill", seconds=60)

    def _covered(self) -> int:
        return int(self._client.read()["last_summarized_prompt_index"])

    def _send(self, turn: Turn) -> int:
        """Send the prompt, and return the status of the answer, or 0 if there was no answer."""
        body: dict[str, Any] = {
            "agent_slot": turn.actor,
            "user_text": turn.words,
            "witnesses": turn.witnesses,
        }
        headers = {"Idempotency-Key": turn.mark}
        try:
            answer = call(self._server, "POST", f"{self._path}/prompt", body, headers=headers)
        except (OSError, HTTPException):
            return 0
        if answer.status not in (CREATED, 409, 502, 503):
            raise RunError(f"The prompt was refused: {answer.status} {answer.body[:300]!r}")
        return answer.status
