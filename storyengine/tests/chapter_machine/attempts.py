"""Rules of the state machine for attempts, choices, acts and rulings."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.utils import timezone
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from agents.calling.admission import give_back
from agents.flows.replies import finishing, turns
from agents.flows.replies.acting import do_act
from agents.flows.replies.choosing import choose_reply, edit_reply
from agents.flows.replies.writing import ReplyRun
from agents.models import Job
from agents.modes.registry import who_answers
from agents.prompting.layers import TIERS
from agents.running.recovery import recover
from memory.canon.corrections import write_correction
from sessions.exceptions import InvalidInput, WrongState
from sessions.models import PERSON, Attempt
from sessions.play.attempts import OpenedAttempt, open_reroll, open_trial
from sessions.play.breaking import fail_attempt, stop_attempt
from sessions.play.played_world import NewChange, store_changes
from sessions.tests.factories import make_active_chapter
from storyengine.tests.chapter_machine.checks import CHUNK, check_request, payload_of
from storyengine.tests.chapter_machine.expected import (
    ASIDE,
    KEEPERS,
    SEA,
    SIGNALS,
    THINKS,
    Change,
    ExpectedChapter,
    Ruling,
    Run,
    Step,
    Try,
)
from storyengine.tests.lighthouse.keeper import WATCH
from storyengine.tests.lighthouse.setup import TANK
from storyengine.tests.lighthouse.state import LIT, OIL, TIDE_CAME, WIND

FORMS = ("", ASIDE, THINKS, SEA, SIGNALS)
# The kinds of change that a step can make. A change of the wind ends a stretch of memory.
KINDS = (LIT, LIT, OIL, WIND, PERSON)
# The layer that a trial changes in a request, with its text before and after.
TRIED: dict[str, object] = {
    "layer": 1,
    "layer_name": "SYSTEM",
    "text_before": "Keep it.",
    "text": "Let it go.",
}
MOSTLY = st.sampled_from([True, True, False])
ACTORS = st.sampled_from((None, None, *KEEPERS))


class PlaysAttempts(RuleBasedStateMachine):
    """The rules for attempts and for acts of the user between them.

    Each rule makes the same step in the engine and in the expected chapter.
    """

    def __init__(self) -> None:
        super().__init__()
        chapter = make_active_chapter(
            mode="lighthouse", selected_agent_slots=KEEPERS, chunk_size_prompts=CHUNK
        )
        self.pk = chapter.pk
        self.made = [self.pk]
        self.expected = ExpectedChapter()
        self.in_flight: Try | None = None
        self.broken: Try | None = None
        self.trials: list[Try] = []
        self.has_ended = False
        # The jobs that workers of the test have claimed.
        self.claimed: list[Job] = []
        # Attempts and jobs that have ended. A process that has not noticed this may still try to
        # write them.
        self.lost: list[Attempt] = []
        self.lost_jobs: list[Job] = []
        # True if the chapter has asked for all late results that its attempts need. A new copy has
        # not yet asked for the results of its latest turn. It asks with its next prompt, with a
        # retry or at its end.
        self.asks_again = True
        # The ids of the chosen attempts of earlier turns whose late results were not finished when
        # the copy was made.
        self.left_out: set[int] = set()
        self.count = self.checks = 0

    @property
    def latest(self) -> Step:
        return self.expected.latest

    @property
    def number(self) -> int:
        return len(self.expected.turns)

    @property
    def running(self) -> list[Try]:
        return [*self.trials, *([self.in_flight] if self.in_flight else [])]

    @property
    def can_change(self) -> bool:
        """Whether another attempt at the latest turn can be made or chosen."""
        return not (self.has_ended or self.in_flight or self.latest.acts)

    @property
    def can_play(self) -> bool:
        return not (self.has_ended or self.in_flight)

    def next(self) -> int:
        self.count += 1
        return self.count

    def mark(self) -> str:
        return f"zq{self.next()}"

    def refused_unless(self, is_allowed: bool, do: Callable[[], Any]) -> Any:
        if is_allowed:
            return do()
        with pytest.raises(WrongState):
            do()
        return None

    def text(self, data: st.DataObject, actor: int | None) -> str:
        """Return a text that a model could write, with one spoken paragraph and up to two
        others."""
        forms = st.sampled_from([one for one in FORMS if actor or one != THINKS])
        paragraphs = [f"Reply {self.mark()}."]
        for form in data.draw(st.lists(forms, max_size=2), label="forms"):
            said = f"Thought tq{self.next()}." if form == THINKS else f"More {self.mark()}."
            paragraphs.append(f"{form} {said}".strip())
        return "\n\n".join(paragraphs)

    def words(self, data: st.DataObject) -> str:
        """Return words of the user. After some of these words, the keepers act in turn without
        prompts."""
        return f"{data.draw(st.sampled_from(('Words', WATCH)))} {self.mark()}."

    def some(self, data: st.DataObject, number: int) -> list[int] | None:
        """Return random witnesses or readers. They are among the characters and persons who take
        part before the turn with this number.

        If the result is None, all of them are meant.
        """
        everybody = self.expected.everybody(before=number)
        drawn = st.none() | st.lists(st.sampled_from(everybody), min_size=1, unique=True)
        return data.draw(drawn, label="who")

    @precondition(lambda self: not self.in_flight)
    @rule(data=st.data(), actor=ACTORS, is_committed=MOSTLY)
    def play(self, data: st.DataObject, actor: int | None, is_committed: bool) -> None:
        self.send_prompt(data, actor)
        if is_committed:
            self.commit(data)

    @precondition(lambda self: self.can_change)
    @rule(data=st.data(), is_committed=MOSTLY)
    def play_again(self, data: st.DataObject, is_committed: bool) -> None:
        self.reroll(data)
        if is_committed:
            self.commit(data)

    def send_prompt(self, data: st.DataObject, actor: int | None) -> None:
        number = self.number + 1
        who = self.some(data, number)
        words = self.words(data) if actor == 1 or data.draw(st.booleans()) else ""
        opened = self.refused_unless(
            self.can_play, lambda: self.begin(self.prompt(actor, words, who, self.mark()))
        )
        if opened:
            self.in_flight, self.broken = self.take(opened, number, words, who), None
            self.asks_again = True

    def reroll(self, data: st.DataObject) -> None:
        """Re-roll the latest turn, either with the words of the chosen attempt or with other
        words."""
        like, actor, words = self.latest.chosen, None, None
        who: Sequence[int] | None = None
        if data.draw(st.booleans(), label="otherwise"):
            actor, words = data.draw(st.sampled_from(KEEPERS)), self.words(data)
            who = self.some(data, self.number)
        opened = self.refused_unless(
            self.can_change,
            lambda: self.begin(
                partial(
                    open_reroll,
                    self.pk,
                    submission_key=self.mark(),
                    actor=actor,
                    words=words,
                    witnesses=who,
                    answers=who_answers,
                )
            ),
        )
        if opened:
            who = like.witnesses if who is None else who
            words = like.words if words is None else words
            self.in_flight, self.broken = self.take(opened, self.number, words, who), None

    def prompt(
        self, actor: int | None, words: str, who: list[int] | None, key: str
    ) -> Callable[[], OpenedAttempt]:
        return partial(
            turns.store_prompt,
            self.pk,
            actor=actor,
            words=words,
            witnesses=who,
            submission_key=key,
        )

    def begin(self, open_attempt: Callable[[], OpenedAttempt]) -> Attempt:
        """Store an attempt, let it take its late results, and prepare the call of its model."""
        run = ReplyRun(open_attempt)
        run.begin()
        if run.call is not None:
            give_back(run.call.admission)
        assert run.must_run
        return run.attempt

    def take(self, row: Attempt, number: int, words: str, who: Any) -> Try:
        """Return the expected form of an attempt that has just begun. Its only changes are the late
        results that it takes."""
        taken = [Change(TIDE_CAME, one.level) for one in self.expected.waiting(number)]
        witnesses = None if who is None else sorted({*who, *([row.actor] if row.actor else [])})
        one = Try(row, number, words, witnesses, Run(taken))
        check_request(self.expected, one, TIERS[self.count % len(TIERS)])
        return one

    @precondition(lambda self: not self.latest.acts)
    @rule()
    def try_beside_play(self) -> None:
        source = self.latest.chosen
        opened = self.refused_unless(
            not (self.has_ended or self.latest.acts),
            lambda: self.begin(
                partial(
                    open_trial,
                    self.pk,
                    source=source.row,
                    changed_layer=TRIED,
                    submission_key=self.mark(),
                )
            ),
        )
        if opened:
            self.trials.append(self.take(opened, self.number, source.words, source.witnesses))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), kind=st.sampled_from(KINDS))
    def take_a_step(self, data: st.DataObject, kind: str) -> None:
        one = data.draw(st.sampled_from(self.running))
        change = Change(kind, 1 if kind == OIL else self.next())
        if kind == PERSON:
            change = Change(kind, 0, self.mark())
        elif kind == LIT:
            change = Change(kind, f"lamp {change.value}")
        payload = payload_of(change)
        assert store_changes(one.row, [NewChange(kind, payload)])
        if kind == PERSON:
            stored = one.row.changes.filter(kind=PERSON).order_by("position")
            of_run = stored.filter(run_id=one.row.run_id).last()
            assert of_run is not None
            change = Change(kind, of_run.payload["number"], change.mark)
        one.run.changes.append(change)
        check_request(self.expected, one, TIERS[self.count % len(TIERS)])

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data())
    def commit(self, data: st.DataObject) -> None:
        one, self.in_flight = self.in_flight, None
        assert one is not None
        text = self.text(data, one.actor)
        self.store_reply(one, text)

    def store_reply(self, one: Try, text: str) -> None:
        assert finishing.commit_reply(one.row, text)
        self.choose_committed(one, text)
        follows = Job.objects.filter(kind=Job.Kind.GO_ON, attempt=one.row)
        assert follows.exists() == (self.expected.acts_next(one) is not None)

    def choose_committed(self, one: Try, text: str) -> None:
        one.events = self.expected.outcome(one, text)
        if one.turn > self.number:
            self.expected.turns.append(Step([one], one))
        else:
            self.latest.tries.append(one)
            self.latest.chosen = one

    @precondition(lambda self: self.trials)
    @rule(data=st.data(), is_committed=MOSTLY)
    def end_a_trial(self, data: st.DataObject, is_committed: bool) -> None:
        one = self.trials.pop(0)
        text = self.text(data, one.actor)
        if is_committed:
            assert finishing.commit_reply(one.row, text)
            one.events = self.expected.outcome(one, text)
            self.expected.turns[one.turn - 1].tries.append(one)
        else:
            assert fail_attempt(one.row, error="No answer.", partial_text=text)
            self.lost.append(one.row)

    @precondition(lambda self: self.in_flight)
    @rule(data=st.data(), how=st.sampled_from(["fail", "stop", "kill"]), has_text=st.booleans())
    def break_off(self, data: st.DataObject, how: str, has_text: bool) -> None:
        one, self.in_flight = self.in_flight, None
        assert one is not None
        text = self.text(data, one.actor) if has_text and how != "kill" else ""
        if how == "fail":
            assert fail_attempt(one.row, error="No answer.", partial_text=text)
        elif how == "stop":
            assert stop_attempt(one.row, partial_text=text)
        else:
            past = timezone.now() - timedelta(seconds=1)
            Attempt.objects.filter(pk=one.row.pk).update(lease_until=past)
            recover(self.pk)
            assert Attempt.objects.get(pk=one.row.pk).status == Attempt.Status.FAILED
        self.lost.append(one.row)
        if text:
            one.kept_run, one.kept_text = one.run, text
        self.broken = one

    @precondition(lambda self: self.broken)
    @rule()
    def retry(self) -> None:
        one = self.broken
        assert one is not None
        key = one.row.submission_key
        again = self.prompt(one.actor, one.words, one.row.witnesses, key)
        if one.row.kind == Attempt.Kind.REROLL:
            again = partial(open_reroll, self.pk, submission_key=key)
        row = self.refused_unless(self.can_play, lambda: self.begin(again))
        if row:
            run = self.take(row, one.turn, one.words, one.witnesses)
            run.kept_run, run.kept_text = one.kept_run, one.kept_text
            self.in_flight, self.broken = run, None
            self.asks_again = self.asks_again or one.row.kind != Attempt.Kind.REROLL

    @precondition(lambda self: self.broken and self.broken.kept_run)
    @rule()
    def keep(self) -> None:
        one = self.broken
        assert one is not None
        assert one.kept_run is not None
        row = self.refused_unless(self.can_play, lambda: turns.keep_reply(self.pk))
        if row:
            one.row, one.run, self.broken = row, one.kept_run, None
            self.choose_committed(one, one.kept_text)
            assert not Job.objects.filter(kind=Job.Kind.GO_ON, attempt=row).exists()

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def write_without_a_claim(self, data: st.DataObject) -> None:
        lost = data.draw(st.sampled_from(self.lost))
        assert not store_changes(lost, [NewChange(LIT, {"lamp": "late"})])
        assert finishing.commit_reply(lost, "") is None

    # The following rules are the user's changes of the latest turn and the user's rulings on canon.

    @precondition(lambda self: self.can_change)
    @rule(data=st.data())
    def choose(self, data: st.DataObject) -> None:
        one = data.draw(st.sampled_from(self.latest.tries))
        done = self.refused_unless(
            self.can_change, lambda: choose_reply(self.pk, self.number, one.row.pk)
        )
        if done and self.latest.chosen is not one:
            self.latest.chosen, self.broken = one, None

    @precondition(lambda self: self.number > 1)
    @rule(data=st.data())
    def choose_too_late(self, data: st.DataObject) -> None:
        step = data.draw(st.sampled_from(self.expected.turns[:-1]))
        with pytest.raises(WrongState):
            choose_reply(self.pk, step.chosen.turn, step.tries[0].row.pk)

    @precondition(lambda self: self.can_change)
    @rule()
    def edit(self) -> None:
        text, source = f"Edited {self.mark()}.", self.latest.chosen
        row = self.refused_unless(self.can_change, lambda: edit_reply(self.pk, self.number, text))
        if row:
            run = Run(list(source.run.changes))
            edited = Try(row, self.number, source.words, source.witnesses, run)
            edited.events = source.edited(text)
            self.latest.tries.append(edited)
            self.latest.chosen, self.broken = edited, None

    @precondition(lambda self: not self.in_flight)
    @rule(litres=st.integers(1, 3))
    def act(self, litres: int) -> None:
        def refuel() -> Any:
            return do_act(self.pk, "refuel", {"litres": litres})

        if self.can_play and self.expected.light().oil + litres > TANK:
            with pytest.raises(InvalidInput):
                refuel()
        elif self.refused_unless(self.can_play, refuel):
            self.latest.acts.append(Change(OIL, litres))
            self.broken = None

    @rule(data=st.data())
    def rule_on_canon(self, data: st.DataObject) -> None:
        mark, who = self.mark(), self.some(data, self.number + 1)
        write_correction(self.pk, canon=f"so is {mark}", readers=who)
        readers = self.expected.everybody() if who is None else who
        self.expected.rulings.append(Ruling(self.number, mark, frozenset(readers)))

    @precondition(lambda self: self.in_flight or self.latest.acts)
    @rule(data=st.data())
    def do_what_is_refused(self, data: st.DataObject) -> None:
        self.reroll(data)
        self.edit()
        self.choose(data)
        if self.in_flight:
            self.send_prompt(data, 1)
            self.act(1)
        else:
            self.try_beside_play()
