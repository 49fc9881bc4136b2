"""The Game Master's client, which sends requests to the program and records the answers."""

import http.client
import json
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from chaos.journal import Journal, Key, Reply, Violation, Words
from chaos.scenarios import Scenario
from testing.http_calls import RunError, Server, StreamEvent, call, stream
from testing.session_data import Setup

# A request without an answer after this number of seconds counts as hanging.
ANSWER_SECONDS = 60
POLL_SECONDS = 0.1
# The statuses with which the program may refuse a request that is correct.
REFUSALS = (409, 429, 502, 503)

NETWORK_ERRORS = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Told:
    """The program's answer to a request. The status is 0 if the connection broke before the
    answer."""

    status: int
    body: Any = None


NOTHING = Told(0)


class Client:
    """The client. `broken` is True while a process or a server is down. While `broken` is True, no
    error counts as a violation.

    Where there are several web processes, its requests go to them in turn.
    """

    def __init__(self, servers: Sequence[Server], journal: Journal) -> None:
        self._turns = cycle(servers)
        self.journal = journal
        self.violations: list[Violation] = []
        self.broken = False

    def apart(self) -> "tuple[Client, Client]":
        """Return two clients of the same journal, each of one of two web processes alone."""
        one, other = (Client([next(self._turns)], self.journal) for _ in range(2))
        one.violations = other.violations = self.violations
        return one, other

    def next_server(self) -> Server:
        """Return the web process that gets the next request."""
        return next(self._turns)

    def create(self, setup: Setup, scenario: Scenario) -> str:
        """Create a chapter and save its setup. Return the chapter's id, or "" if a request
        failed."""
        created = self.send("POST", "/api/session", {"mode": scenario.mode})
        if created.status != 201:
            return ""
        session_id = str(created.body["session_id"])
        of_mode = self.send("PUT", f"/api/session/{session_id}/setup", scenario.setup)
        is_set_up = of_mode.status == self.save_setup(session_id, setup).status == 200
        return session_id if is_set_up else ""

    def save_setup(self, session_id: str, setup: Setup) -> Told:
        told = self.send("PUT", f"/api/session/{session_id}/tab1", setup.as_tab1())
        if told.status == 200:
            self.journal.setups[session_id] = setup
        return told

    def ask(self, session_id: str, verb: str, body: Any = None) -> Told:
        """Send a request that starts work in the background, and wait up to 20 seconds for the
        work."""
        headers = {"Prefer": "wait=20"}
        if verb == "end":
            # If summaries have failed, memory may be far behind. The program then asks the client
            # to accept the number of model calls that memory needs. The client accepts any number.
            body = {"accept_calls": True}
        return self.send("POST", f"/api/session/{session_id}/{verb}", body, headers=headers)

    def prompt(self, key: Key, words: Words, *, streams: bool = False) -> Told:
        """Send a prompt under its key, and record the answer."""
        session_id, submission = key
        path = f"/api/session/{session_id}/prompt"
        told = (self._stream if streams else self._post)(path, _body_of(words), submission)
        self._note(key, words, told)
        return told

    def leave(self, key: Key, words: Words) -> bool:
        """Send a prompt, and close the connection after the first event. Return whether this event
        was a token of the reply."""
        session_id, submission = key
        events = stream(
            self.next_server(),
            f"/api/session/{session_id}/prompt",
            _body_of(words),
            headers={"Idempotency-Key": submission},
            timeout=ANSWER_SECONDS,
        )
        try:
            first = next(events, None)
        except (*NETWORK_ERRORS, RunError):
            return False
        finally:
            events.close()  # type: ignore[attr-defined]  # it is a generator
        if first is not None:
            self.journal.kept[key] = words
        return first is not None and first.name == "token"

    def many_prompts(self, forms: Sequence[tuple[Key, Words]]) -> list[Told]:
        """Send all prompts at once, each over a connection of its own."""
        with ThreadPoolExecutor(len(forms)) as tabs:
            return list(tabs.map(lambda form: self.prompt(*form), forms))

    def many(self, times: int, session_id: str, verb: str) -> list[Told]:
        with ThreadPoolExecutor(times) as tabs:
            return list(tabs.map(lambda _: self.ask(session_id, verb), range(times)))

    def fork(self, key: Key, number: int, times: int = 1) -> list[Told]:
        """Send the same form of a fork several times at once, and record the answers."""
        path, headers = f"/api/session/{key[0]}/fork", {"Idempotency-Key": key[1]}

        def send(_: int) -> Told:
            return self.send("POST", path, {"number": number}, headers=headers)

        with ThreadPoolExecutor(times) as tabs:
            told = list(tabs.map(send, range(times)))
        for answer in told:
            if answer.status == 201:
                fork = answer.body["session_id"]
                if self.journal.forks.setdefault(key, fork) != fork:
                    self.complain("a form sent again is one fork", key[0], f"{told}")
                self.journal.setups[fork] = self.journal.setups[key[0]]
        return told

    def choose(self, session_id: str, number: int, chance: random.Random) -> Told:
        """Choose a random committed attempt of the turn, if possible one that is not chosen."""
        path = f"/api/session/{session_id}/turns/{number}"
        turn = self.send("GET", path)
        if turn.status != 200:
            return turn
        committed = [one for one in turn.body["attempts"] if one["status"] == "committed"]
        others = [one for one in committed if not one["is_chosen"]]
        attempt = chance.choice(others or committed)
        told = self.send("POST", f"{path}/choose", {"attempt_id": attempt["attempt_id"]})
        if told.status < 400 and told.status and not attempt["is_chosen"]:
            self.journal.choices += 1
        return told

    def act(self, session_id: str, act: dict[str, Any]) -> Told:
        """Send this act. The mode may refuse it because of earlier play."""
        told = self.send("POST", f"/api/session/{session_id}/act", act)
        self.journal.acts[session_id] += told.status == 201
        return told

    def keep(self, key: Key, words: Words) -> Told:
        """Keep the text of the broken attempt as its reply."""
        told = self.send("POST", f"/api/session/{key[0]}/keep")
        self._note(key, words, told)
        return told

    def read(self, session_id: str) -> dict[str, Any]:
        """Return the chapter as the API shows it. Raise RunError if every try within a minute
        fails."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while True:
            told = self.send("GET", f"/api/session/{session_id}")
            if told.status == 200:
                break
            if time.monotonic() > deadline:
                raise RunError(f"The chapter {session_id} cannot be read: {told}")
            time.sleep(POLL_SECONDS)
        for draft in told.body["narrative_drafts"]:
            self.journal.drafts[draft["draft_id"]] = (session_id, draft["chapter_text"])
        document: dict[str, Any] = told.body
        return document

    def send(
        self, method: str, path: str, body: Any = None, *, headers: dict[str, str] | None = None
    ) -> Told:
        try:
            answer = call(
                self.next_server(), method, path, body, headers=headers, timeout=ANSWER_SECONDS
            )
        except TimeoutError:
            self.complain("every request is answered", path, "no answer within a minute")
            return NOTHING
        except NETWORK_ERRORS as error:
            if not self.broken:
                self.complain("every request is answered", path, repr(error))
            return NOTHING
        is_refused_act = answer.status == 422 and path.endswith("/act")
        is_foreseen = answer.status < 400 or answer.status in REFUSALS or is_refused_act
        if not (is_foreseen or self.broken):
            self.complain(
                "refusals are foreseen", path, f"{method}: {answer.status} {answer.body[:300]!r}"
            )
        try:
            return Told(answer.status, answer.json() if answer.body else None)
        except ValueError:
            return Told(answer.status)

    def _post(self, path: str, body: Any, submission: str) -> Told:
        return self.send("POST", path, body, headers={"Idempotency-Key": submission})

    def _stream(self, path: str, body: Any, submission: str) -> Told:
        """Send a prompt, and read the stream of its reply. Return the answer that a client without
        a stream would get.

        Record a violation if the streamed text lacks the text of an event in the stream's last
        message.
        """
        headers = {"Idempotency-Key": submission}
        events = stream(self.next_server(), path, body, headers=headers, timeout=ANSWER_SECONDS)
        told = NOTHING
        try:
            told, shown = _follow(events)
        except TimeoutError:
            self.complain("every request is answered", path, "the stream hung for a minute")
        except RunError as error:
            # The program refused the prompt before the stream began. Here the status 409 stands for
            # every refusal, because the driver reads the chapter again before its next step.
            if f"{path}: 500" in str(error) and not self.broken:
                self.complain("refusals are foreseen", path, str(error))
            return Told(409)
        except NETWORK_ERRORS as error:
            if not self.broken:
                self.complain("streams end with a word", path, repr(error))
        else:
            if told is NOTHING and not self.broken:
                self.complain("streams end with a word", path, "neither turn nor error came")
            if told.status == 201 and not was_shown(told.body["events"], shown):
                self.complain("streams show the reply", path, f"shown {shown[-200:]!r}")
        return told

    def _note(self, key: Key, words: Words, told: Told) -> None:
        if told.status == 201:
            self.journal.kept[key] = words
            events = told.body["events"]
            self.journal.answered[key] = Reply(
                told.body["prompt_index"],
                tuple((event["event_id"], event["text"]) for event in events),
            )
            asked = [event["text"] for event in events if event["role"] == "user"]
            if asked != ([words.text] if words.text else []) or len(events) == len(asked):
                self.complain("answers are to what was sent", key[0], f"{events}")
        elif told.body and told.body.get("pending_turn"):
            pending = told.body["pending_turn"]
            if (pending["submission_key"], pending["user_text"]) == (key[1], words.text):
                self.journal.kept[key] = words

    def complain(self, rule: str, where: str, detail: str) -> None:
        self.violations.append(Violation(rule, where, detail))


def _body_of(words: Words) -> dict[str, Any]:
    given = {} if words.given is None else {"given": words.given}
    return {"agent_slot": words.agent_slot, "user_text": words.text, **given}


def was_shown(events: Sequence[dict[str, Any]], shown: str) -> bool:
    """Return whether the stream showed the texts of the reply's events in their order. The shown
    text must begin with the first event's text and end with the last event's text. Events of the
    program, such as a move, are no text of the stream."""
    texts = [event["text"] for event in events if event["role"] == "agent"]
    shown = shown.strip()
    at = 0
    for text in texts:
        at = shown.find(text, at) + len(text)
        if at < len(text):
            return False
    return bool(texts) and shown.startswith(texts[0]) and shown.endswith(texts[-1])


def _follow(events: Iterator[StreamEvent]) -> tuple[Told, str]:
    """Return the answer that the last event of the stream has, and the text that the stream
    showed."""
    shown, told = "", NOTHING
    for event in events:
        data = json.loads(event.data)
        if event.name == "token":
            shown = data["text"] if data.get("is_restart") else shown + data["text"]
        elif event.name == "turn":
            told = Told(201, data)
        elif event.name == "error":
            told = Told(int(data["status"]), data)
    return told, shown
