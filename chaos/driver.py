"""Plays chapter after chapter as a Game Master. There is one fault in each step.

A step sends the request that the chapter needs next, and causes its fault meanwhile. If a prompt
gets no answer, later steps send the prompt again under the same key until the program has answered
it.
"""

import random
import time
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.client import POLL_SECONDS, Client, Told
from chaos.elsewhere import follow_elsewhere, stop_elsewhere
from chaos.journal import Key, Violation, Words
from chaos.scenarios import Scenario
from chaos.schedule import FAULTS_ELSEWHERE, MODEL_FAULTS, Fault
from chaos.stack import Stack
from testing.http_calls import RunError
from testing.session_data import beat_text, small_setup_of, synthetic_session

AGENTS = 3
SHORTEST, LONGEST = 8, 17
TARGET_WORDS = 200
# The longest time in seconds that the program may need to recover. A worker's lease and a sweep
# take 35 seconds of it.
PATIENCE_SECONDS = 60
# The longest time in seconds for which the client waits, while characters act without a prompt,
# before it sends the next prompt.
WATCH_SECONDS = 10
# The longest time in seconds between a request and the kill that shall interrupt the request.
LONGEST_FUSE = 0.6
REROLL_SHARE = 0.2
# The share of re-rolls after which the client chooses one of the attempts of the turn.
CHOICE_SHARE = 0.8
KEEP_SHARE = 0.3
# The share of broken prompts of somebody else that the client retries. Another tab may have sent
# such a prompt, or a character may have acted without a prompt.
RETRY_SHARE = 0.5
ACT_SHARE = 0.15
FORK_SHARE = 0.3
# The share of forks after which play goes on in the fork. In all other cases it goes on in the
# origin.
FOLLOW_SHARE = 0.5


class Driver:
    def __init__(self, stack: Stack, client: Client, scenarios: Sequence[Scenario]) -> None:
        self._stack = stack
        # Each new chapter gets the next of these scenarios.
        self._scenarios = scenarios
        self._scenario = scenarios[0]
        self._client = client
        self._session = synthetic_session(1)
        self._chapters = 0
        self._beats = 0
        self._chapter = ""
        self._length = 0
        # The prompt that the program has not answered yet, and its key.
        self._open: tuple[Key, Words] | None = None
        # The fork that the program has not confirmed yet: the key of its form, and the number of
        # the turn.
        self._asked_fork: tuple[Key, int] | None = None
        # The chapter of the last re-roll and the number of its prompt. The client may choose
        # another attempt at this prompt in a later step.
        self._written_again = ("", 0)
        self._chance = random.Random(0)  # noqa: S311  (a schedule, no secret)

    def step(self, fault: Fault) -> bool:
        """Play one step under this fault. Return whether the fault had an effect.

        Raise RunError if the chapter is stuck.
        """
        self._chance = random.Random(fault.choices)  # noqa: S311  (a schedule, no secret)
        document = self._settled()
        if document is None:
            return False
        verb = self._next_verb(document)
        if fault.kind not in MODEL_FAULTS and self._wants_fork(document, verb):
            verb = "fork"
        if fault.kind in MODEL_FAULTS:
            return self._with_model_fault(fault, document, verb)
        if fault.is_kill:
            return self._with_kill(fault, document, verb)
        if fault.kind in FAULTS_ELSEWHERE:
            return self._elsewhere(fault.kind, document, verb)
        return self._as_bad_client(fault.kind, document, verb)

    def finish(self) -> None:
        """Play the chapter to its end without further faults. Record a violation if this takes too
        long.

        Then begin and finish a chapter of one prompt for each scenario that a short run has left
        out.
        """
        self._stack.unmet_faults()
        self._finish_chapter()
        while self._chapters < len(self._scenarios):
            self._begin()
            self._finish_chapter()

    def _finish_chapter(self) -> None:
        self._length = 0
        deadline = time.monotonic() + 3 * PATIENCE_SECONDS
        while self._chapter and time.monotonic() < deadline:
            document = self._settled()
            if document is None or self._is_done(document):
                return
            self._do(document, self._next_verb(document))
        if self._chapter:
            self._complain("chapters can be finished", "no draft after the faults were over")

    def _settled(self) -> dict[str, Any] | None:
        """Wait until the chapter can take a step, and return the chapter. If the chapter is
        complete, begin another one first."""
        if not self._chapter and not self._begin():
            return None
        deadline = time.monotonic() + PATIENCE_SECONDS
        watched_until = time.monotonic() + self._chance.choice((0, WATCH_SECONDS))
        while _is_busy(document := self._client.read(self._chapter)) or (
            _goes_on_alone(document) and time.monotonic() < watched_until
        ):
            if time.monotonic() > deadline:
                detail = f"{document['state']} {document['pending_turn']} {document['jobs']}"
                violation = Violation("nothing is stuck", self._chapter, detail)
                self._client.violations.append(violation)
                raise RunError(f"The chapter {self._chapter} is stuck: {detail}")
            time.sleep(POLL_SECONDS)
        if self._is_done(document) and self._length:
            self._chapter = ""
            return self._settled()
        return document

    def _begin(self) -> bool:
        self._chapters += 1
        self._length = self._chance.randint(SHORTEST, LONGEST)
        self._open = self._asked_fork = None
        self._scenario = self._scenarios[self._chapters % len(self._scenarios)]
        setup = small_setup_of(self._session, self._chapters)
        self._chapter = self._client.create(setup, self._scenario)
        return bool(self._chapter)

    def _is_done(self, document: dict[str, Any]) -> bool:
        """Return whether the chapter is complete: it has a draft, or has ended if its mode has no
        narration."""
        is_ended = document["state"] == "ENDED" and not self._scenario.is_narrated
        return is_ended or bool(document["narrative_drafts"])

    def _next_verb(self, document: dict[str, Any]) -> str:
        if document["state"] == "DRAFT_TAB1":
            return "lock"
        if document["state"] == "ENDED":
            return "build-narrative"
        if self._open is None and document["prompt_index"] >= max(self._length, 1):
            return "end"
        return "prompt"

    def _with_model_fault(self, fault: Fault, document: dict[str, Any], verb: str) -> bool:
        agent = _agent_of(verb, document, self._chance)
        if agent == 1 and not self._scenario.has_numbered_agents:
            # The agent who answers has no number, so the fault waits for the next call of any
            # agent.
            agent = None
        self._stack.queue_faults(MODEL_FAULTS[fault.kind], fault.repeats, agent)
        before = document["last_summarized_prompt_index"]
        self._do(document, verb)
        if agent == 8:
            # The summary begins only after the reply is committed. Until then the fault cannot
            # happen.
            self._await_memory(before)
        return self._stack.unmet_faults() < fault.repeats

    def _await_memory(self, before: int) -> None:
        """Wait until the summary is written or has failed once. Do not wait for a retry."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            document = self._client.read(self._chapter)
            jobs = [job for job in document["jobs"] if job["kind"] == "summarize"]
            if document["last_summarized_prompt_index"] > before or not jobs or jobs[-1]["error"]:
                return
            time.sleep(POLL_SECONDS)

    def _with_kill(self, fault: Fault, document: dict[str, Any], verb: str) -> bool:
        self._client.broken = True
        fuse = self._chance.uniform(0, LONGEST_FUSE)
        with ThreadPoolExecutor(1) as thread:
            playing = thread.submit(self._do, document, verb)
            time.sleep(fuse)
            was_hit = self._stack.kill_and_start(fault.kind, fault.choices)
            playing.result()
        self._client.broken = False
        return was_hit

    def _as_bad_client(self, kind: str, document: dict[str, Any], verb: str) -> bool:
        acts: dict[str, Callable[[], bool]] = {
            "twice": lambda: self._repeat(document, verb, 2),
            "tenfold": lambda: self._repeat(document, verb, 10),
            "two-tabs": lambda: self._in_two_tabs(document, verb),
            "leave": lambda: self._leave(document, verb),
        }
        return acts[kind]()

    def _repeat(self, document: dict[str, Any], verb: str, times: int) -> bool:
        if verb == "fork":
            return _were_all_sent(self._fork(document, times))
        if verb != "prompt":
            return _were_all_sent(self._client.many(times, self._chapter, verb))
        is_new = self._open is None
        key, words = self._open_prompt(document)
        told = self._client.many_prompts([(key, words)] * times)
        self._close_if_answered(*told)
        if is_new and self._open is None:
            self._client.journal.called_once.add(key)
        return _were_all_sent(told)

    def _in_two_tabs(self, document: dict[str, Any], verb: str) -> bool:
        """Send two prompts at the same time, as two tabs would. If the next step of the chapter is
        not a prompt, send an old setup at the same time as the step."""
        if verb != "prompt":
            return self._with_stale_setup(document, verb)
        mine, others = self._open_prompt(document), self._new_prompt(document)
        told = self._client.many_prompts([mine, others])
        self._close_if_answered(told[0])
        return _were_all_sent(told)

    def _with_stale_setup(self, document: dict[str, Any], verb: str) -> bool:
        stale = small_setup_of(self._session, self._chapters + 1_000)
        with ThreadPoolExecutor(1) as other_tab:
            saving = other_tab.submit(self._client.save_setup, self._chapter, stale)
            done, saved = self._do(document, verb), saving.result()
        if saved.status == 200 and verb != "lock":
            self._complain("a stale tab changes nothing", "the locked setup was overwritten")
        return _were_all_sent([done, saved])

    def _leave(self, document: dict[str, Any], verb: str) -> bool:
        if verb != "prompt":
            self._do(document, verb)
            return False
        return self._client.leave(*self._open_prompt(document))

    def _elsewhere(self, kind: str, document: dict[str, Any], verb: str) -> bool:
        """Send a prompt to one web process. Stop or follow its reply on the other one."""
        if verb != "prompt":
            self._do(document, verb)
            return False
        key, words = self._open_prompt(document)
        is_stop = kind == "stop-elsewhere"
        # The reply takes so long that the other process can stop it, or find it before its end.
        agent = 1 if self._scenario.has_numbered_agents else None
        self._stack.queue_faults("slow" if is_stop else "delay", 1, agent)
        act = stop_elsewhere if is_stop else follow_elsewhere
        told, was_met = act(self._client, key, words)
        self._close_if_answered(told)
        self._stack.unmet_faults()
        return was_met

    def _do(self, document: dict[str, Any], verb: str) -> Told:
        """Send the request of the next step, and return the answer. In a step with a prompt, the
        client may instead keep a broken reply, re-roll, act or choose an attempt."""
        if verb == "fork":
            return self._fork(document)[0]
        if verb == "build-narrative":
            body = {"narrative_agent_definition_text": "", "target_words": TARGET_WORDS}
            path = f"/api/session/{self._chapter}/narrative-agent"
            self._client.send("PUT", path, body)
        if verb != "prompt":
            return self._client.ask(self._chapter, verb)
        if self._open is not None and self._may_keep(document):
            told = self._client.keep(*self._open)
        elif self._wants_choice(document):
            self._written_again = ("", 0)
            return self._client.choose(self._chapter, document["prompt_index"], self._chance)
        elif self._wants_reroll(document):
            headers = {"Idempotency-Key": uuid.uuid4().hex}
            path = f"/api/session/{self._chapter}/reroll"
            self._written_again = (self._chapter, document["prompt_index"])
            return self._client.send("POST", path, headers=headers)
        elif self._wants_act(document):
            return self._client.act(self._chapter, self._chance.choice(self._scenario.acts))
        else:
            key, words = self._open_prompt(document)
            streams = self._chance.random() < 0.5
            told = self._client.prompt(key, words, streams=streams)
        self._close_if_answered(told)
        return told

    def _fork(self, document: dict[str, Any], times: int = 1) -> list[Told]:
        """Fork the chapter at a random prompt. Play goes on in the fork or in the origin."""
        if self._asked_fork is None:
            number = self._chance.randint(1, document["prompt_index"])
            self._asked_fork = (self._chapter, uuid.uuid4().hex), number
        told = self._client.fork(*self._asked_fork, times)
        made = [each.body["session_id"] for each in told if each.status == 201]
        if made:
            self._asked_fork = None
            if self._chance.random() < FOLLOW_SHARE:
                self._chapter = made[0]
        return told

    def _wants_fork(self, document: dict[str, Any], verb: str) -> bool:
        """Return whether to fork now. While a prompt has no answer, no fork is made."""
        may = verb == "prompt" and self._open is None and document["prompt_index"] > 0
        share = FOLLOW_SHARE if self._asked_fork else FORK_SHARE
        return may and self._chance.random() < share

    def _may_keep(self, document: dict[str, Any]) -> bool:
        pending = document["pending_turn"]
        is_mine = pending and self._open and pending["submission_key"] == self._open[0][1]
        return bool(
            is_mine and pending["partial_text"].strip() and self._chance.random() < KEEP_SHARE
        )

    def _wants_reroll(self, document: dict[str, Any]) -> bool:
        may = self._open is None and document["prompt_index"] > 0
        return may and self._chance.random() < REROLL_SHARE

    def _wants_act(self, document: dict[str, Any]) -> bool:
        may = self._scenario.acts and self._open is None and document["prompt_index"] > 0
        return bool(may) and self._chance.random() < ACT_SHARE

    def _wants_choice(self, document: dict[str, Any]) -> bool:
        is_new = self._written_again == (self._chapter, document["prompt_index"])
        may = self._open is None and is_new
        return may and self._chance.random() < CHOICE_SHARE

    def _open_prompt(self, document: dict[str, Any]) -> tuple[Key, Words]:
        """Return the prompt that has no answer yet, or else a new prompt. The prompt without an
        answer may be a broken one that the client did not send itself."""
        pending = document["pending_turn"]
        is_others = self._open is None and pending and pending["kind"] == "prompt"
        if is_others and self._chance.random() < RETRY_SHARE:
            words = Words(pending["agent_slot"], pending["user_text"])
            self._open = (self._chapter, pending["submission_key"]), words
        if self._open is None:
            self._open = self._new_prompt(document)
        return self._open

    def _new_prompt(self, document: dict[str, Any]) -> tuple[Key, Words]:
        self._beats += 1
        sent = {"agent_slot": document["next_agent_slot"], "user_text": beat_text(self._beats)}
        if self._scenario.prompts:
            sent |= self._chance.choice(self._scenario.prompts)
        words = Words(sent["agent_slot"], sent["user_text"], sent.get("given"))
        return (self._chapter, uuid.uuid4().hex), words

    def _close_if_answered(self, *told: Told) -> None:
        """Forget the open prompt if the program answered it, or another tab has set it aside."""
        if any(each.status == 201 or _was_set_aside(each) for each in told):
            self._open = None

    def _complain(self, rule: str, detail: str) -> None:
        self._client.violations.append(Violation(rule, self._chapter, detail))


def _were_all_sent(told: Sequence[Told]) -> bool:
    """Return whether the program sent an answer to each request."""
    return all(each.status for each in told)


def _was_set_aside(told: Told) -> bool:
    return told.status == 409 and bool(told.body) and "was set aside" in told.body["detail"]


def _is_busy(document: dict[str, Any]) -> bool:
    """Return whether work is running during which the program would refuse the next step."""
    pending = document["pending_turn"]
    return (
        document["state"] in ("LOCKING", "NARRATING")
        or document["is_ending"]
        or bool(pending and pending["status"] == "running")
    )


def _goes_on_alone(document: dict[str, Any]) -> bool:
    return any(
        job["kind"] == "go_on" and job["status"] in ("queued", "running")
        for job in document["jobs"]
    )


def _agent_of(verb: str, document: dict[str, Any], chance: random.Random) -> int | None:
    """Return the number of the agent whose call shall have the fault. The number 1 stands for any
    character."""
    if verb != "prompt":
        return {"lock": 0, "end": 8, "build-narrative": 9}[verb]
    size = document["config"]["chunk_size_prompts"]
    is_chunk_end = (document["prompt_index"] + 1) % size == 0
    return 8 if is_chunk_end and chance.random() < 0.7 else 1
