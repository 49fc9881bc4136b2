"""A small model of a lighthouse chapter. It consists of the chapter's turns and needs no database.

The state machine makes the same steps in the engine and in this model, and compares the two.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from sessions.models import PERSON, Attempt
from storyengine.tests.lighthouse.keeper import WATCH
from storyengine.tests.lighthouse.mode import MODE
from storyengine.tests.lighthouse.state import LIT, OIL, TIDE_CAME, WIND, Light

KEEPERS = (1, 2, 3)
# A mark is a word that occurs only once. Each spoken text, each ruling and each person's name has a
# mark of one form. Each thought has a mark of the other form.
MARK = re.compile(r"zq\d+")
THOUGHT_MARK = re.compile(r"tq\d+")
# The beginning of the key of each attempt without a prompt.
AFTER = "after "
ASIDE, THINKS, SEA, SIGNALS = "*aside*", "*thinks*", "*sea*", "*signal*"


@dataclass(frozen=True)
class Change:
    """A change of the world.

    Its `value` is a lamp, a number of litres, the force of the wind, the level of the tide, or the
    number of a person. A person's name contains the `mark`.
    """

    kind: str
    value: int | str
    mark: str = ""


@dataclass
class Run:
    """The changes of one run of an attempt, in order: first those of late results, then those of
    its steps."""

    changes: list[Change]


@dataclass(frozen=True)
class Said:
    """An event: its text, and the members of the cast who perceived it.

    `form` is the first word of the event's paragraph if this word names the kind of the event.
    Otherwise `form` is empty, as for the words of the user.
    """

    text: str
    witnesses: frozenset[int]
    form: str = ""

    @property
    def is_thought(self) -> bool:
        return self.form == THINKS


@dataclass
class Try:
    """An attempt. `kept_run` is the latest run that brought a text, and `kept_text` is that
    text."""

    row: Attempt
    turn: int
    words: str
    witnesses: Sequence[int] | None
    run: Run
    kept_run: Run | None = None
    kept_text: str = ""
    events: list[Said] = field(default_factory=list)

    @property
    def actor(self) -> int | None:
        return self.row.actor

    @property
    def is_alone(self) -> bool:
        """Whether this is an attempt without a prompt. A copied attempt never counts as one,
        because it has a new key."""
        return not self.words and self.row.submission_key.startswith(AFTER)

    @property
    def replies(self) -> list[Said]:
        """The events of the attempt without the user's words."""
        return self.events[bool(self.words) :]

    @property
    def key(self) -> str:
        """The text of the attempt's replies. It identifies the attempt, because no two attempts
        have the same replies."""
        return key_of([one.text for one in self.replies])

    @property
    def text(self) -> str:
        """The text from which the lighthouse makes the events of this attempt."""
        return "\n\n".join(f"{one.form} {one.text}".strip() for one in self.replies)

    def edited(self, text: str) -> list[Said]:
        """Return the attempt's events with a text of one paragraph in place of the whole reply.

        The reply is the last event that is no thought, and all others that the same speaker says in
        the same way.
        """
        last = [one for one in self.replies if not one.is_thought][-1]
        first, *others = [one for one in self.replies if self._way_of(one) == self._way_of(last)]
        return [
            replace(one, text=text) if one == first else one
            for one in self.events
            if one not in others
        ]

    def _way_of(self, one: Said) -> tuple[int | None, str, frozenset[int]]:
        """Return the speaker of the event, its kind, and who perceived it."""
        kind = one.form if one.form in (THINKS, SIGNALS) else ""
        return None if one.form == SEA else self.actor, kind, one.witnesses


@dataclass
class Step:
    """A turn with its committed attempts, oldest first, and with the acts that followed it."""

    tries: list[Try]
    chosen: Try
    acts: list[Change] = field(default_factory=list)


@dataclass
class Result:
    """A finished late result. No other late result has the same level."""

    asker: Try
    level: int


@dataclass
class Ruling:
    """A ruling. `turn` is the number of the latest turn when the ruling was made."""

    turn: int
    mark: str
    readers: frozenset[int]


@dataclass
class ExpectedChapter:
    turns: list[Step] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    rulings: list[Ruling] = field(default_factory=list)

    @property
    def latest(self) -> Step:
        return self.turns[-1]

    def told(self, *, before: int | None = None) -> list[Step]:
        """Return the turns before the turn with this number, or all turns if there is no number."""
        return self.turns if before is None else self.turns[: before - 1]

    def is_chosen(self, one: Try) -> bool:
        return one.turn <= len(self.turns) and self.turns[one.turn - 1].chosen is one

    def acts_next(self, one: Try) -> int | None:
        """Return the keeper who acts without a prompt after this attempt, or None."""
        chosen = [step.chosen for step in self.turns]
        last = chosen[-MODE.play.most_turns_alone :]
        has_acted_enough = len(last) == MODE.play.most_turns_alone and all(x.is_alone for x in last)
        began = next((x.words for x in reversed(chosen) if x.words), "")
        if chosen[-1] is not one or has_acted_enough or not began.startswith(WATCH):
            return None
        return 2 if one.actor == 1 else 1

    def changes(self, *, before: int | None = None, run: Run | None = None) -> list[Change]:
        """Return the changes that count before the turn with this number. Add the changes of `run`,
        although its attempt is not committed."""
        counting: list[Change] = []
        for step in self.told(before=before):
            counting += step.chosen.run.changes + step.acts
        return counting + (run.changes if run else [])

    def light(self, *, before: int | None = None, run: Run | None = None) -> Light:
        changes = self.changes(before=before, run=run)
        return Light(
            lit=tuple(str(one.value) for one in changes if one.kind == LIT),
            oil=Light().oil + sum(int(one.value) for one in changes if one.kind == OIL),
            wind=next((int(one.value) for one in reversed(changes) if one.kind == WIND), None),
            tides=tuple(int(one.value) for one in changes if one.kind == TIDE_CAME),
        )

    def people(self, *, before: int | None = None, run: Run | None = None) -> list[Change]:
        return [one for one in self.changes(before=before, run=run) if one.kind == PERSON]

    def everybody(self, *, before: int | None = None, run: Run | None = None) -> list[int]:
        return [*KEEPERS, *(int(one.value) for one in self.people(before=before, run=run))]

    def waiting(self, number: int) -> list[Result]:
        """Return the late results that an attempt at the turn with this number takes. They are in
        the order of the turns that asked for them."""
        taken = self.light(before=number).tides
        found = [
            one
            for one in self.results
            if one.asker.turn < number and self.is_chosen(one.asker) and one.level not in taken
        ]
        return sorted(found, key=lambda one: one.asker.turn)

    def known_to(
        self, slot: int | None, *, before: int | None = None, run: Run | None = None
    ) -> set[str]:
        """Return the marks of the events and rulings that the character knows, and the marks of all
        persons.

        Without a slot, return the marks of all events and rulings.
        """
        heard = [one.text for one in self._said(before) if slot is None or slot in one.witnesses]
        told = [one.mark for one in self.rulings if slot is None or slot in one.readers]
        people = [one.mark for one in self.people(before=before, run=run)]
        return marks_of([*heard, *told, *people])

    def thoughts_of(self, slot: int, *, first: int = 1, before: int | None = None) -> set[str]:
        """Return the marks of the character's thoughts from turn `first` on."""
        steps = self.told(before=before)[first - 1 :]
        events = [one for step in steps for one in step.chosen.events if one.is_thought]
        return thoughts_in(one.text for one in events if slot in one.witnesses)

    def _said(self, before: int | None) -> Iterator[Said]:
        for step in self.told(before=before):
            yield from (one for one in step.chosen.events if not one.is_thought)

    def outcome(self, one: Try, text: str) -> list[Said]:
        """Return the events that the lighthouse makes from this text of an attempt."""
        before = self.everybody(before=one.turn, run=one.run)
        present = frozenset(before if one.witnesses is None else one.witnesses)
        present |= {one.actor} if one.actor else set()
        events = [Said(one.words, present)] if one.words else []
        for paragraph in text.split("\n\n"):
            form, _, rest = paragraph.partition(" ")
            if form in (THINKS, ASIDE):
                events.append(Said(rest, frozenset({one.actor} if one.actor else ()), form))
            elif form in (SEA, SIGNALS):
                events.append(Said(rest, present, form))
            else:
                events.append(Said(paragraph, present))
        return events

    def until(self, number: int, rows: dict[str, Attempt]) -> "ExpectedChapter":
        """Return a copy of this model that ends with the turn with this number. `rows` maps the
        texts of replies to the copied attempts."""
        tries: dict[int, Try] = {}
        steps: list[Step] = []
        for step in self.turns[:number]:
            for one in step.tries:
                run = Run(list(one.run.changes))
                tries[id(one)] = replace(one, row=rows[one.key], run=run)
            copies = [tries[id(one)] for one in step.tries]
            steps.append(Step(copies, tries[id(step.chosen)], list(step.acts)))
        results = [
            Result(tries[id(one.asker)], one.level)
            for one in self.results
            if id(one.asker) in tries
        ]
        rulings = [one for one in self.rulings if one.turn <= number]
        return ExpectedChapter(steps, results, rulings)


def key_of(replies: Sequence[str]) -> str:
    return " | ".join(replies)


def marks_of(texts: Collection[str]) -> set[str]:
    return set(MARK.findall(" ".join(texts)))


def thoughts_in(texts: Iterator[str] | Collection[str]) -> set[str]:
    return set(THOUGHT_MARK.findall(" ".join(texts)))
