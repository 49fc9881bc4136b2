"""Tests that the world of an exploration is the one that its chosen attempts made, however it was
played.

Explorations are played at random through the API: with words and without, with moves, waits,
meetings, late results, other replies, choices, edits, failures, retries, kept replies and copies.
After each step the world that the API tells is compared with the world that was shown when the
chosen attempt was committed, and with a small model of the world (`any_play/expected.py`).
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from pytest_django import Settings

from agents.calling.model_access import substitute_provider
from agents.llm.providers.failures.call_errors import StreamBroken
from agents.llm.providers.scripted import Script
from agents.models import Job
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from explorer.tests.any_play.expected import ExpectedWorld, in_short
from explorer.tests.any_play.teller import Teller
from explorer.tests.playing import begin, calls, discover, move, wait
from sessions.models import Session
from storyengine.api.tests.calling import address, call

# The number of explorations that are played. The weekly run plays more.
FEW = 25 if os.environ.get("STORYENGINE_TEST_STRIDE") == "1" else 4
EXPLORATIONS = int(os.environ.get("STORYENGINE_TEST_CHAPTERS", FEW))
YOU, INN, LANDING, MILL = "Edda Linn", "The Ferry Inn", "The Landing", "The Mill"
PEOPLE = {"Osk": INN, "Marta Quill": LANDING, "Tove": INN, "Ib": MILL, "Runa": MILL}
HIDDEN = ("Marta Quill", "Tove")
ALIASES = {"the ringer": "Marta Quill"}
SETUP: dict[str, Any] = {
    "title": "The Last Ferry",
    "description": "A river inn.",
    "narrative_time": "Dusk",
    "places": [{"name": name} for name in (INN, LANDING, MILL)],
    "people": [
        {
            "name": name,
            "location": place,
            "is_discovered": name not in HIDDEN,
            "aliases": [alias for alias, one in ALIASES.items() if one == name],
        }
        for name, place in PEOPLE.items()
    ],
    "starting_place": INN,
    "persona": {"name": YOU},
}
# Names by which the narrator may call people and places: as they are, otherwise, and new ones.
CALLED = (*PEOPLE, "osk", "The Ringer", "Guard", "the guard", YOU, "Nobody")
INVENTED = {"Nobody": "Ferryman", "the guard": "Guard"}
NAMED = ("Marta Quill", "the ringer", "Tove", "Osk")
DESTINATIONS = (INN, LANDING, MILL, "the mill", "LANDING", "jetty", "old barn", "attic", "well")
NEW_PLACES = ("Boat House", "Grain Loft")


@dataclass
class Try:
    """A committed attempt: the world that it left, as the model has it and as the API showed it,
    and the late results that it took."""

    attempt_id: str
    world: ExpectedWorld
    shown: dict[str, Any]
    taken: set[str]
    words: str


@dataclass
class Step:
    tries: list[Try]
    chosen: Try


@dataclass
class Run:
    """What an attempt has done so far: the world, whether there is text, and what it took."""

    world: ExpectedWorld
    taken: set[str]
    words: str
    has_text: bool = False


@dataclass
class Broken:
    key: str
    run: Run
    kept: Run | None = field(default=None)


class Play(RuleBasedStateMachine):
    # The model of all explorations of a test, which the test sets.
    teller = Teller()

    def __init__(self) -> None:
        super().__init__()
        self.teller.queue.clear()
        self.numbers = count(1)
        self.chapter = begin(SETUP)
        Session.objects.filter(pk=self.chapter.pk).update(chunk_size_prompts=3)
        at = {YOU: INN, **PEOPLE}
        met = {name for name in at if name not in HIDDEN}
        self.first = ExpectedWorld(YOU, "Dusk", [INN, LANDING, MILL], at, met, dict(ALIASES))
        self.turns: list[Step] = []
        self.broken: Broken | None = None

    @initialize(data=st.data())
    def play_some(self, data: st.DataObject) -> None:
        self.say(data, True)
        self.say(data, True)

    @rule(data=st.data(), has_words=st.booleans())
    def say(self, data: st.DataObject, has_words: bool) -> None:
        words = f"Words {self.mark()}." if has_words else ""
        run, number = self.begin(words, len(self.turns))
        self.plan(data, run)
        self.committed(self.post("prompt", user_text=words), run, number)

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), has_new_words=st.booleans())
    def reply_again(self, data: st.DataObject, has_new_words: bool) -> None:
        words = f"Words {self.mark()}." if has_new_words else self.turns[-1].chosen.words
        run, number = self.begin(words, len(self.turns) - 1)
        self.plan(data, run)
        new = {"user_text": words} if has_new_words else {}
        self.committed(self.post("reroll", **new), run, number)

    @precondition(lambda self: self.turns and len(self.turns[-1].tries) > 1)
    @rule(data=st.data())
    def choose(self, data: st.DataObject) -> None:
        """Go back to another attempt, or forth."""
        step = self.turns[-1]
        one = data.draw(st.sampled_from(step.tries))
        path = f"turns/{len(self.turns)}/choose"
        assert self.post(path, attempt_id=one.attempt_id).status_code == 200
        step.chosen = one
        self.broken = None

    @precondition(lambda self: self.turns)
    @rule()
    def edit(self) -> None:
        before = self.turns[-1].chosen
        answer = self.post(f"turns/{len(self.turns)}/edit", text=f"Edited {self.mark()}.")
        run = Run(before.world.copy(), before.taken, before.words)
        self.committed(answer, run, len(self.turns) - 1)

    @rule(data=st.data(), has_words=st.booleans())
    def break_off(self, data: st.DataObject, has_words: bool) -> None:
        """Send a prompt whose reply breaks off in one of its steps."""
        words = f"Words {self.mark()}." if has_words else ""
        run, _ = self.begin(words, len(self.turns))
        self.plan(data, run, breaks=True)
        key = f"key-{self.mark()}"
        answer = call(
            "POST", address(self.chapter, "prompt"), {"user_text": words}, Idempotency_Key=key
        )
        assert answer.status_code == 502, answer.content
        self.broken = Broken(key, run, run if run.has_text else None)

    @precondition(lambda self: self.broken)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        assert self.broken
        key, words = self.broken.key, self.broken.run.words
        run, number = self.begin(words, len(self.turns))
        self.plan(data, run)
        answer = call(
            "POST", address(self.chapter, "prompt"), {"user_text": words}, Idempotency_Key=key
        )
        self.committed(answer, run, number)

    @precondition(lambda self: self.broken and self.broken.kept)
    @rule()
    def keep(self) -> None:
        assert self.broken
        assert self.broken.kept
        self.committed(self.post("keep"), self.broken.kept, len(self.turns))

    @rule()
    def work(self) -> None:
        """Let a worker finish what waits: memory, and what happened out of sight."""
        while job_id := due_jobs().values_list("pk", flat=True).first():
            work_on(job_id)

    @precondition(lambda self: self.turns)
    @rule(data=st.data(), is_fork=st.booleans())
    def copy(self, data: st.DataObject, is_fork: bool) -> None:
        """Fork the chapter, or write it into a file and read that, and compare the worlds."""
        until = data.draw(st.integers(1, len(self.turns))) if is_fork else len(self.turns)
        if is_fork:
            answer = self.post("fork", number=until)
        else:
            document = call("GET", address(self.chapter, "export")).json()
            answer = call("POST", "/api/session/import", document)
        assert answer.status_code == 201, answer.content
        copy = Session.objects.get(pk=answer.json()["session_id"])
        for number, step in enumerate(self.turns[:until], 1):
            assert in_short(world_at(copy, number)) == in_short(step.chosen.shown)
        call("DELETE", address(copy))

    @invariant()
    def the_world_is_the_one_that_the_chosen_attempts_made(self) -> None:
        now = world_at(self.chapter)
        assert in_short(now) == self.world_before(len(self.turns)).as_shown()
        if self.turns:
            assert now == self.turns[-1].chosen.shown

    def teardown(self) -> None:
        for number, step in enumerate(self.turns, 1):
            assert world_at(self.chapter, number) == step.chosen.shown

    def mark(self) -> int:
        return next(self.numbers)

    def post(self, action: str, **body: Any) -> Any:
        return call("POST", address(self.chapter, action), body)

    def world_before(self, turns: int) -> ExpectedWorld:
        return self.turns[turns - 1].chosen.world if turns else self.first

    def begin(self, words: str, turns: int) -> tuple[Run, int]:
        """Begin a run after so many turns: it takes the late results that wait, and then the turn
        takes its time, with words or without."""
        world = self.world_before(turns).copy()
        before = [step.chosen for step in self.turns[:turns]]
        taken = set().union(*(one.taken for one in before))
        done = Job.objects.filter(session=self.chapter, status=Job.Status.DONE)
        waiting = done.filter(attempt__in=[one.attempt_id for one in before], result__isnull=False)
        took = set()
        for job in waiting.order_by("to_prompt_index", "created_at", "pk"):
            if str(job.pk) not in taken and job.result_kind:
                world.take(job.result or {})
                took.add(str(job.pk))
        world.say()
        return Run(world, took, words), turns

    def plan(self, data: st.DataObject, run: Run, *, breaks: bool = False) -> None:
        """Queue the steps of the narrator, and do the same in the model of the world."""
        self.teller.told.clear()
        self.shown_to_narrator = [facts_of(run.world)]
        steps = data.draw(st.integers(0, 4), label="steps with tools")
        for _ in range(steps):
            text = data.draw(st.sampled_from(["", f"Text {self.mark()}."]))
            run.has_text |= bool(text)
            kinds = data.draw(st.lists(st.sampled_from("mmwd"), min_size=1, max_size=2))
            called = [self.call_of(data, kind, run.world) for kind in kinds]
            self.teller.enqueue(calls(text, *called))
            self.shown_to_narrator.append(facts_of(run.world))
        if breaks:
            text = data.draw(st.sampled_from(["", f"Half {self.mark()}."]))
            run.has_text |= bool(text)
            self.teller.enqueue(Script(text, error=StreamBroken("gone")))
            return
        names = data.draw(st.lists(st.sampled_from(NAMED), max_size=2))
        self.teller.enqueue(f"The end {self.mark()} of {', '.join(names) or 'it'}.")
        run.world.name_in_text(names)

    def call_of(self, data: st.DataObject, kind: str, world: ExpectedWorld) -> Any:
        time = f"Hour {self.mark()}"
        if kind == "w":
            ticks = data.draw(st.sampled_from([1, 12, 30]))
            world.wait(time, ticks)
            return wait(time, ticks)
        if kind == "d":
            name = data.draw(st.sampled_from(CALLED))
            name = name if world.find(name) else INVENTED.get(name, name)
            world.discover(name)
            return discover(name)
        to = data.draw(st.sampled_from(DESTINATIONS))
        along = data.draw(st.lists(st.sampled_from(CALLED), max_size=3, unique=True))
        meant = data.draw(st.sampled_from([*world.places, *NEW_PLACES]))
        confidence = data.draw(st.sampled_from([0.9, 0.9, 0.4]))
        if not world.place_of(to):
            self.teller.means[to] = meant, confidence
        is_match = meant in world.places and confidence >= 0.6
        is_new = meant not in world.places
        world.go(to, meant if is_match or is_new else to.title(), time, along)
        return move(to, *along, time=time)

    def committed(self, answer: Any, run: Run, turns: int) -> None:
        """Check that the attempt was committed, and remember the world that is shown now."""
        assert answer.status_code == 201, answer.content
        assert not self.teller.queue
        turn = call("GET", address(self.chapter, f"turns/{turns + 1}")).json()
        [chosen] = [one for one in turn["attempts"] if one["is_chosen"]]
        shown = world_at(self.chapter)
        assert in_short(shown) == run.world.as_shown()
        one = Try(chosen["attempt_id"], run.world, shown, run.taken, run.words)
        if turns == len(self.turns):
            self.turns.append(Step([one], one))
        else:
            self.turns[turns].tries.append(one)
            self.turns[turns].chosen = one
        if self.teller.told:
            # Each step of the narrator was told the world as it was then.
            assert self.teller.told == self.shown_to_narrator
        self.teller.told.clear()
        self.broken = None


def facts_of(world: ExpectedWorld) -> dict[str, str]:
    return {"CURRENT LOCATION": world.here, "TIME": f"{world.time} (tick {world.tick})"}


def world_at(chapter: Session, number: int | None = None) -> dict[str, Any]:
    turn = "" if number is None else f"?turn={number}"
    answer = call("GET", address(chapter, "world") + turn)
    assert answer.status_code == 200, answer.content
    world: dict[str, Any] = answer.json()
    return world


@pytest.fixture
def teller(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings.LLM = "scripted"
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 1_000_000
    model = Teller(people=tuple(PEOPLE))
    monkeypatch.setattr(Play, "teller", model)
    with substitute_provider(model):
        yield


@pytest.mark.django_db
@pytest.mark.usefixtures("teller")
def test_the_world_is_a_fold_of_the_chosen_attempts() -> None:
    run_state_machine_as_test(
        Play,
        settings=hypothesis_settings(
            max_examples=EXPLORATIONS,
            phases=[Phase.generate],
            stateful_step_count=12,
            suppress_health_check=list(HealthCheck),
        ),
    )
