"""The state machine that plays chapters of a mode at random, through the API.

It keeps what the program has shown of each attempt. After each step it compares the chapter with
it, applies the rules of `chaos.invariants` to the rows, and looks into each new request.
"""

import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from agents.flows.replies import turns
from agents.flows.replies.acting import do_act
from agents.flows.replies.choosing import choose_reply, edit_reply
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script
from agents.models import LLMArtifact
from agents.modes.registry import find_agent, who_answers
from agents.running.recovery import recover
from chaos.invariants import find_violations
from chaos.journal import Journal
from chaos.rows import rows_of
from chaos.scenarios import Scenario
from sessions.exceptions import WrongState
from sessions.models import THOUGHT, Attempt, Session, State
from sessions.play.breaking import stop_attempt
from sessions.play.committing import commit_attempt
from sessions.play.played_world import everybody_at, store_changes
from storyengine.api.tests.calling import address, call
from storyengine.tests.every_mode.knowing import check_calls, check_memory, check_tiers
from storyengine.tests.every_mode.playing import (
    Step,
    Try,
    begin,
    chosen_events,
    work_until_none_is_due,
    world_after,
    world_now,
)
from storyengine.tests.every_mode.scripted_model import ScriptedModel, calls


class PlaysAttempts(RuleBasedStateMachine):
    # A test sets these two for all its chapters.
    scenario = Scenario("any")
    model = ScriptedModel()

    def __init__(self) -> None:
        super().__init__()
        self.model.queue.clear()
        self.model.at_end = None
        self.chapter = begin(self.scenario)
        self.made = [self.chapter.pk]
        self.turns: list[Step] = []
        self.first = world_now(self.chapter)
        # A broken attempt: the body and the key with which it was sent, and its scripts.
        self.broken: dict[str, Any] | None = None
        self.seen: set[uuid.UUID] = set()
        self.lost: list[Attempt] = []
        # The numbers of turns that copies from files had at first.
        self.imported: dict[str, int] = {}
        self.is_fine, self.checks = False, 0
        addressed = [one["agent_slot"] for one in self.scenario.prompts]
        self.slots = self.chapter.selected_agent_slots if not addressed else set(addressed) - {None}
        # A chapter that opens with a text has its first turn already.
        self.follow([])

    @property
    def latest(self) -> Step:
        return self.turns[-1]

    @property
    def can_change(self) -> bool:
        """Whether another attempt at the latest turn can be made or chosen."""
        return bool(self.turns) and not self.latest.acts

    # What is sent, and what the model writes.

    def send(self, action: str, body: Any, key: str = "") -> Any:
        self.is_fine = False
        headers = {"Idempotency_Key": key} if key else {}
        return call("POST", address(self.chapter, action), body, **headers)

    def prompt(self, data: st.DataObject, before: int | None = None) -> dict[str, Any]:
        """Return a prompt that the mode takes, for the turn with this number or the next one."""
        prompts = self.scenario.prompts or [{"agent_slot": slot} for slot in self.slots]
        body = dict(data.draw(st.sampled_from(prompts), label="prompt"))
        if words := body.get("user_text", "Words"):
            words = f"{words} {self.model.mark()}."
        body["user_text"] = words
        if self.slots and (who := data.draw(self.some(before), label="witnesses")):
            body["witnesses"] = who
        return body

    def some(self, before: int | None = None) -> "st.SearchStrategy[list[int] | None]":
        """Draw some of those who take part before a turn, or None for everybody."""
        everybody = [one.number for one in everybody_at(self.reload(), before=before)]
        return st.none() | st.lists(st.sampled_from(everybody), min_size=1, unique=True)

    def plan(self, data: st.DataObject, actor: int | None, end: str = "") -> list[Script]:
        """Queue the steps of a reply, of which the last one ends so: whole, or broken off."""
        self.is_fine = False
        agent = find_agent(who_answers(self.chapter, actor).agent, actor)
        scripts = []
        if agent and agent.tools:
            # No call is repeated, because a step of repeated calls ends a reply.
            some = st.lists(st.sampled_from(self.scenario.tools), max_size=4, unique_by=str)
            made = data.draw(some, label="tools")
            for step in (made[:2], made[2:]):
                if step:
                    said = data.draw(st.sampled_from(["", "Text {}."])).format(self.model.mark())
                    scripts.append(calls(said, *map(self.named, step)))
        text = "" if end == "before the first word" else self.text(data, actor)
        error = StreamBroken("gone") if end in ("fail", "before the first word") else None
        scripts.append(Script(text, error=error))
        self.model.enqueue(*scripts)
        return scripts

    def named(self, made: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
        """Return a tool call in which names with a blank are new ones."""
        name, arguments = made
        self.model.count += 1
        return name, {
            key: one.format(self.model.count) if isinstance(one, str) else one
            for key, one in arguments.items()
        }

    def text(self, data: st.DataObject, actor: int | None) -> str:
        """Return a text of one paragraph that is said, and up to two others; or a thought alone."""
        ends = self.scenario.replies_end.split("\n\n")
        forms = [one.partition(" ")[0] for one in ends if one]
        if actor and self.scenario.thought:
            forms.append(self.scenario.thought)
            if data.draw(st.integers(0, 5), label="thinks") == 0:
                return f"{self.scenario.thought} More {self.model.mark('tq')}."
        paragraphs = [f"Reply {self.model.mark()}."]
        for form in data.draw(st.lists(st.sampled_from(["", *forms]), max_size=2), label="forms"):
            kind = "tq" if form == self.scenario.thought != "" else "zq"
            paragraphs.append(f"{form} More {self.model.mark(kind)}.".strip())
        return "\n\n".join(paragraphs)

    # The rules for attempts.

    @initialize(data=st.data())
    def play_some(self, data: st.DataObject) -> None:
        for _ in range(4):
            self.say(data, is_shown_first=True)
        self.work()

    @rule(data=st.data(), is_shown_first=st.booleans())
    def say(self, data: st.DataObject, is_shown_first: bool) -> None:
        body = self.prompt(data)
        layers = self.send("dry-run", body).json()["layers"] if is_shown_first else []
        scripts = self.plan(data, body["agent_slot"])
        first = len(self.model.history)
        self.committed(self.send("prompt", body), body, scripts)
        if layers:
            # The dry run has shown what the model was sent.
            shown = "\n\n".join(layer["text"] for layer in layers)
            sent = self.model.history[first].messages
            assert shown == "\n\n".join(message.content for message in sent)

    @precondition(lambda self: self.can_change)
    @rule(data=st.data(), has_other_words=st.booleans())
    def reply_again(self, data: st.DataObject, has_other_words: bool) -> None:
        latest = self.latest.chosen.sent
        body = self.prompt(data, len(self.turns)) if has_other_words else dict(latest)
        sent = body if has_other_words else {}
        if has_other_words and "witnesses" not in body:
            sent = body | {"witnesses": "everybody"}
        scripts = self.plan(data, body["agent_slot"])
        self.committed(self.send("reroll", sent), body, scripts, is_again=True)

    @precondition(lambda self: self.can_change and len(self.latest.tries) > 1)
    @rule(data=st.data())
    def choose(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.latest.tries))
        path = f"turns/{len(self.turns)}/choose"
        assert self.send(path, {"attempt_id": str(one.row.pk)}).status_code == 200
        if one is not self.latest.chosen:
            self.latest.chosen, self.latest.world, self.broken = one, one.world, None

    @precondition(lambda self: self.can_change)
    @rule()
    def edit(self) -> None:
        if not any(one["role"] == "agent" for one in self.latest.chosen.events):
            return
        source, text = self.latest.chosen, f"Edited {self.model.mark()}."
        answer = self.send(f"turns/{len(self.turns)}/edit", {"text": text})
        if all(one["kind"] == THOUGHT for one in source.events if one["role"] == "agent"):
            assert answer.status_code == 409, answer.content
            return
        one = self.committed(answer, source.sent, source.scripts, is_again=True)
        assert one.world == source.world
        one.then, one.edits = source.then, (*source.edits, text)

    @rule(
        data=st.data(),
        how=st.sampled_from(["fail", "before the first word", "stop", "kill"]),
        is_again=st.booleans(),
    )
    def break_off(self, data: st.DataObject, how: str, is_again: bool) -> None:
        """Send a prompt whose reply breaks off, or have the latest reply written again so."""
        is_again = is_again and self.can_change
        body = dict(self.latest.chosen.sent) if is_again else self.prompt(data)
        key, action = f"key {self.model.mark()}", "reroll" if is_again else "prompt"
        if how == "kill":
            self.kill(body, key)
            return
        scripts = self.plan(data, body["agent_slot"], how)
        if how == "stop":
            self.model.at_end = self.stop
        answer = self.send(action, {} if is_again else body, key)
        assert answer.status_code == (409 if how == "stop" else 502), answer.content
        pending = answer.json()["pending_turn"]
        assert (pending["submission_key"], pending["user_text"]) == (key, body["user_text"])
        self.lost.append(Attempt.objects.get(session=self.chapter, submission_key=key))
        self.broken = {"action": action, "body": body, "key": key, "scripts": scripts}
        self.broken["has_text"] = bool(pending["partial_text"].strip())

    def stop(self) -> None:
        """Stop the attempt as another process does, after it has refused all else meanwhile."""
        running = Attempt.objects.get(session=self.chapter, status=Attempt.Status.RUNNING)
        pk, number = self.chapter.pk, len(self.turns)
        refused: list[Callable[[], object]] = [
            lambda: turns.store_prompt(
                pk, actor=running.actor, words="No.", witnesses=None, submission_key=""
            ),
            *(partial(do_act, pk, one["act"], one["arguments"]) for one in self.scenario.acts),
        ]
        if self.turns:
            refused += [
                lambda: edit_reply(pk, number, "No."),
                lambda: choose_reply(pk, number, self.latest.chosen.row.pk),
            ]
        for do in refused:
            with pytest.raises(WrongState):
                do()
        assert stop_attempt(running)

    def kill(self, body: dict[str, Any], key: str) -> None:
        """Store a prompt whose process dies before it has called a model."""
        row = turns.store_prompt(
            self.chapter.pk,
            actor=body["agent_slot"],
            words=body["user_text"],
            witnesses=body.get("witnesses"),
            given=body.get("given"),
            submission_key=key,
        ).attempt
        past = timezone.now() - timedelta(seconds=1)
        Attempt.objects.filter(pk=row.pk).update(lease_until=past)
        recover(self.chapter.pk)
        self.lost.append(row)
        self.broken = {
            "action": "prompt",
            "body": body,
            "key": key,
            "scripts": [],
            "has_text": False,
        }

    @precondition(lambda self: self.broken)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        assert self.broken
        broken, is_again = self.broken, self.broken["action"] == "reroll"
        scripts = self.plan(data, broken["body"]["agent_slot"])
        sent = {} if is_again else broken["body"]
        answer = self.send(broken["action"], sent, broken["key"])
        self.committed(answer, broken["body"], scripts, is_again=is_again)
        # The same form once more is the same answer, and no further call.
        count = len(self.model.history)
        again = self.send(broken["action"], sent, broken["key"])
        assert again.json()["attempt_id"] == answer.json()["attempt_id"]
        assert len(self.model.history) == count

    @precondition(lambda self: self.broken and self.broken["has_text"])
    @rule()
    def keep(self) -> None:
        assert self.broken
        broken, answer = self.broken, self.send("keep", {})
        one = self.committed(
            answer, broken["body"], broken["scripts"], is_again=broken["action"] == "reroll"
        )
        one.then = "keep"

    @precondition(lambda self: self.lost)
    @rule()
    def write_without_a_claim(self) -> None:
        """Let the process of an attempt that has ended write on."""
        lost = self.lost[-1]
        assert not store_changes(lost, [])
        assert commit_attempt(lost, "Late.") is None

    @rule()
    def work(self) -> None:
        """Let a worker finish what waits: memory, late results, and those who act without a
        prompt."""
        first = len(self.model.written)
        work_until_none_is_due()
        self.follow(self.model.written[first:])

    def follow(self, written: list[Script]) -> None:
        """Take the turns that came without a prompt, each of one script."""
        chapter = self.reload()
        for number in range(len(self.turns) + 1, chapter.prompt_index + 1):
            row = chapter.turns.get(number=number).chosen
            scripts = [written.pop(0)] if written else []
            events = chosen_events(chapter, number)
            sent = {"agent_slot": row.actor, "user_text": ""}
            one = Try(row, sent, scripts, events, world_after(chapter, number), then="alone")
            self.turns.append(Step([one], one, world=one.world))
            self.broken = None

    # The checks after each step.

    def reload(self) -> Session:
        self.chapter = Session.objects.get(pk=self.chapter.pk)
        return self.chapter

    def world(self) -> str:
        return world_now(self.reload())

    def committed(
        self, answer: Any, sent: dict[str, Any], scripts: list[Script], *, is_again: bool = False
    ) -> Try:
        """Keep what is shown of an attempt that was committed just now."""
        assert answer.status_code == 201, answer.content
        assert not self.model.queue
        number = answer.json()["prompt_index"]
        row = self.chapter.turns.get(number=number).chosen
        one = Try(row, sent, scripts, chosen_events(self.chapter, number), self.world())
        self.check_witnesses(one)
        if is_again:
            assert number == len(self.turns)
            self.latest.tries.append(one)
            self.latest.chosen, self.latest.world = one, one.world
        else:
            assert number == len(self.turns) + 1
            self.turns.append(Step([one], one, world=one.world))
        self.broken = None
        return one

    def check_witnesses(self, one: Try) -> None:
        """Check that nobody perceives more than those to whom the prompt was sent, and the
        actor."""
        if (who := one.sent.get("witnesses")) is None:
            return
        meant = {*who, *([one.row.actor] if one.row.actor else [])}
        for event in one.events:
            assert set(event["witnesses"]) <= meant
            assert event["role"] != "user" or set(event["witnesses"]) == meant

    @invariant()
    def check_now(self) -> None:
        """The world and the events are those that were shown, no rule is broken, and nobody is
        told what he did not witness."""
        chapter, self.is_fine = self.reload(), False
        assert world_now(chapter) == (self.latest.world if self.turns else self.first)
        for number in range(max(1, len(self.turns) - 1), len(self.turns) + 1):
            self.check_turn(number)
        compared = [chapter.pk, chapter.origin_id or chapter.pk]
        rows = [rows_of(one) for one in Session.objects.filter(pk__in=compared)]
        for row in rows:
            # As in a fork, what memory lacks is asked for with the next prompt.
            row["forked_at_prompt"] = self.imported.get(row["session_id"], row["forked_at_prompt"])
        violations = find_violations(
            {"read_at": timezone.now().timestamp(), "chapters": rows}, Journal()
        )
        assert not violations, violations
        new = LLMArtifact.objects.filter(session=chapter).exclude(pk__in=self.seen)
        check_calls(chapter, new)
        self.seen.update(one.pk for one in new)
        check_memory(chapter)
        if self.slots and chapter.state == State.ACTIVE:
            self.checks += 1
            check_tiers(chapter, sorted(self.slots), self.checks)
        self.is_fine = True

    def check_turn(self, number: int) -> None:
        step = self.turns[number - 1]
        assert chosen_events(self.chapter, number) == step.chosen.events
        assert world_after(self.chapter, number) == step.world
