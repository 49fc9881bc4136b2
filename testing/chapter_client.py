"""A client that plays a chapter through the HTTP API, as another program would."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

from testing.http_calls import Answer, RunError, Server, StreamEvent, call, expect, stream
from testing.session_data import Setup

POLL_SECONDS = 0.25
# The longest time in seconds for which the client asks the program to wait before it answers.
# Proxies usually close a silent connection only after a longer time.
PREFERRED_WAIT = 25


class ChapterClient:
    """A client for one chapter. Every method raises RunError if the program refuses the
    request."""

    def __init__(self, server: Server, *, mode: str = "gamemaster", starter: str = "") -> None:
        self._server = server
        body = {"mode": mode, "starter": starter}
        created = expect(201, call(server, "POST", "/api/session", body))
        self.session_id = str(created["session_id"])

    def save_setup(self, setup: Setup) -> None:
        expect(200, self._call("PUT", "/tab1", setup.as_tab1()))

    def lock(self, *, seconds: float) -> None:
        self._request("lock")
        self._wait_for_state("ACTIVE", "lock", seconds)

    def prompt(self, slot: int, text: str) -> float:
        """Send a prompt, wait for its reply, and return the seconds that this took."""
        answer = self._call("POST", "/prompt", {"agent_slot": slot, "user_text": text})
        expect(201, answer)
        return answer.seconds

    def stream_prompt(self, slot: int, text: str) -> Iterator[StreamEvent]:
        """Send a prompt. Yield the `token` events, which have the text, and then the `turn`
        event."""
        body = {"agent_slot": slot, "user_text": text}
        for event in stream(self._server, f"{self._path}/prompt", body, timeout=300):
            if event.name == "token" and json.loads(event.data)["text"]:
                yield event
            elif event.name == "turn":
                yield event
                return
            elif event.name == "error":
                raise RunError(f"The reply failed: {event.data[:500]}")
        raise RunError("The stream ended without a turn.")

    def calls(self) -> list[dict[str, Any]]:
        """Return the latest hundred model calls of the chapter, oldest first."""
        found = expect(200, self._call("GET", "/calls?limit=100"))
        return list(reversed(found["items"]))

    def end(self, *, seconds: float) -> None:
        self._request("end")
        self._wait_for_state("ENDED", "summarize", seconds)

    def build_narrative(self, definition: str, target_words: int, *, seconds: float) -> None:
        body = {"narrative_agent_definition_text": definition, "target_words": target_words}
        expect(200, self._call("PUT", "/narrative-agent", body))
        self._request("build-narrative")
        self._wait(lambda now: bool(now["narrative_drafts"]), "narrate", seconds)

    def read(self) -> dict[str, Any]:
        answer: dict[str, Any] = expect(200, self._call("GET", ""))
        return answer

    def wait_for_memory(self, prompt_index: int, *, seconds: float) -> None:
        self._wait(
            lambda now: int(now["last_summarized_prompt_index"]) >= prompt_index,
            "summarize",
            seconds,
        )

    @property
    def _path(self) -> str:
        return f"/api/session/{self.session_id}"

    def _call(self, method: str, path: str, body: Any = None, wait: int = 0) -> Answer:
        headers = {"Prefer": f"wait={wait}"} if wait else {}
        return call(
            self._server, method, self._path + path, body, headers=headers, timeout=300 + wait
        )

    def _request(self, verb: str) -> None:
        """Send a request that starts work in the background."""
        answer = self._call("POST", f"/{verb}", wait=PREFERRED_WAIT)
        if answer.status not in (200, 201, 202):
            raise RunError(f"POST /{verb}: {answer.status} {answer.body[:500]!r}")

    def _wait_for_state(self, state: str, kind: str, seconds: float) -> None:
        self._wait(lambda now: bool(now["state"] == state), kind, seconds)

    def _wait(self, is_done: Callable[[dict[str, Any]], bool], kind: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_done(now := self.read()):
            failed = [job for job in now["jobs"] if job["kind"] == kind and _is_over(job)]
            if failed and failed[-1]["error"]:
                raise RunError(f"The program gave up: {failed[-1]['error']}")
            if time.monotonic() > deadline:
                raise RunError(f"{kind} took more than {seconds:.0f} seconds.")
            time.sleep(POLL_SECONDS)


def _is_over(job: dict[str, Any]) -> bool:
    return job["status"] in ("failed", "cancelled")
