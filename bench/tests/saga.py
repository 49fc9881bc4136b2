"""Plays a story of several chapters, and asks for the exact prompts. Its truth says who is the same
person in which slot, and what each of them takes along."""

import random
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field

from agents.flows.beginning.locking import request_lock
from agents.flows.beginning.next_chapter import begin_next
from agents.flows.telling.ending import request_end
from bench.fold.play import LARGE, Player, Tallies, set_window
from sessions.chapter.stories import choose_chapter
from sessions.models import CastMember, Session
from testing.told_story import (
    CAST,
    Kind,
    Known,
    Ruling,
    Story,
    Subject,
    Turn,
    Writer,
    make_subjects,
)

# The people who join in later chapters.
NEWCOMERS = ("Renate", "Silvan", "Ottilie", "Bruno", "Dagmar", "Emil")
# The marks of two chapters differ by at least so many attempts.
_MARKS_OF_A_CHAPTER = 1_000


@dataclass
class Chapter(Story):
    """A chapter. `people` are the names of its readers in the order of their slots, and `earlier`
    the chapters before it as the story goes by them."""

    people: tuple[str, ...] = CAST
    earlier: tuple["Chapter", ...] = field(default=())

    @property
    def ruled(self) -> set[Subject]:
        return {one.subject for chapter in (*self.earlier, self) for one in chapter.rulings}

    def name_of(self, slot: int) -> str:
        return self.people[slot - 1]

    def slot_of(self, person: str) -> int | None:
        return self.people.index(person) + 1 if person in self.people else None

    def known(
        self,
        readers: Iterable[int] = (),
        *,
        until: int | None = None,
        with_rulings: bool = True,
    ) -> dict[Subject, Known]:
        whose = tuple(readers)
        own = super().known(whose, until=until, with_rulings=with_rulings)
        ever = self._ever(whose)
        found = {}
        inherited = self._inherited(whose)
        for subject in self.subjects:
            told = (
                *(inherited[subject].told if subject in inherited else ()),
                *(own[subject].told if subject in own else ()),
            )
            if told:
                ruling = own[subject].ruling if subject in own else self._ruling(subject, whose)
                ruling = ruling if with_rulings else None
                found[subject] = Known(told, ruling, ever.get(subject, frozenset()))
        return found

    def may_know(self, turn: Turn, reader: int, until: int) -> bool:
        if any(turn is one for one in self.turns):
            return super().may_know(turn, reader, until)
        if not self.earlier:
            return False
        last = self.earlier[-1]
        latest = next((one for one in reversed(self.earlier) if self._slot_in(one, reader)), None)
        if latest and latest.may_know(turn, self._slot_in(latest, reader), len(latest.turns)):
            return True
        # Who was not in the last chapter is told what everybody there knew.
        return latest is not last and all(
            last.may_know(turn, one, len(last.turns)) for one in last.readers
        )

    def _slot_in(self, chapter: "Chapter", reader: int) -> int:
        """Return the slot that this reader had in an earlier chapter, or 0."""
        return chapter.slot_of(self.name_of(reader)) or 0

    def ever(self, subject: Subject, reader: int, knows: Known | None) -> set[str]:
        earlier = self._ever((reader,)).get(subject, frozenset())
        return super().ever(subject, reader, knows) | earlier

    def has_done(self, turn: Turn, reader: int) -> bool:
        for chapter in (*self.earlier, self):
            if any(turn is one for one in chapter.turns):
                return chapter.people[turn.actor - 1] == self.name_of(reader)
        return False

    def _ruling(self, subject: Subject, whose: tuple[int, ...]) -> Ruling | None:
        found = (one for one in self.rulings if one.subject == subject)
        return next((one for one in found if set(whose) <= set(one.readers)), None)

    def _inherited(self, whose: tuple[int, ...]) -> dict[Subject, Known]:
        """Return what these readers remember at the beginning, each with the turn 0.

        They are told how things stood, but not where the scene was, and of threads only the open
        ones.
        """
        if not self.earlier:
            return {}
        last = self.earlier[-1]
        if not whose:
            end = last.known()
        else:
            slots = [last.slot_of(self.name_of(one)) for one in whose]
            there = [one for one in slots if one is not None]
            end = last.known(there if len(there) == len(slots) else last.readers)
            if len(whose) == 1 and not there:
                end = self._of_long_ago(self.name_of(whose[0])) | end
        return {
            subject: Known(((0, known.now),))
            for subject, known in end.items()
            if subject.kind is not Kind.SCENE
            if subject.kind is not Kind.THREAD or known.now == "open"
        }

    def _of_long_ago(self, person: str) -> dict[Subject, Known]:
        for chapter in reversed(self.earlier):
            if slot := chapter.slot_of(person):
                return chapter.known([slot])
        return {}

    def _ever(self, whose: tuple[int, ...]) -> dict[Subject, frozenset[str]]:
        """Return the values that these readers may have been told in the chapters before."""
        found: dict[Subject, set[str]] = {}
        for subject, known in self._inherited(whose).items():
            found.setdefault(subject, set()).update(known.ever)
        for chapter in self.earlier:
            slots = [chapter.slot_of(self.name_of(one)) for one in whose]
            there = [one for one in slots if one is not None]
            if len(there) == len(slots):
                for subject, known in chapter.known(there).items():
                    found.setdefault(subject, set()).update(known.ever)
        return {subject: frozenset(values) for subject, values in found.items()}


class SagaWriter(Writer):
    """Writes a story of several chapters by chance."""

    story: Chapter

    def __init__(self, seed: int, *, subjects: int, cast: int) -> None:
        self.chance = random.Random(seed)  # noqa: S311 - a story has to be the same again
        found = make_subjects(subjects, cast, self.chance)
        self.story = Chapter(tuple(range(1, cast + 1)), found, people=CAST[:cast])
        self._attempts = 0
        self._newcomers = iter(NEWCOMERS)
        self._away: list[str] = []

    def next_chapter(self) -> "SagaWriter":
        """Return the writer of the next chapter. The people change their slots, one of them stays
        away, one who stayed away comes back, and somebody new joins."""
        writer = copy(self)
        before = self.story
        people = self.chance.sample(before.people, len(before.people))
        leaves = people.pop()
        people.append(self._away.pop(0) if self._away else next(self._newcomers))
        if len(before.earlier) == 1:
            people[0], back = next(self._newcomers), people[0]
            self._away.append(back)
        writer._away = [*self._away, leaves]
        self.chance.shuffle(people)
        writer.story = Chapter(
            before.readers,
            before.subjects,
            book=dict(before.book),
            people=tuple(people),
            earlier=(*before.earlier, before),
        )
        writer._attempts = _MARKS_OF_A_CHAPTER * len(writer.story.earlier)
        return writer


_CAST = 4
# How many turns a fork is played on before the story goes by it, and how far before the end it is
# forked.
_TURNS_OF_A_FORK, _FORKED_BEFORE_END = 5, 6


def play_saga(chapters: int, turns: int, *, subjects: int, seed: int) -> Tallies:
    """Play chapters of so many turns. Every second one is forked near its end, and the story goes
    by the fork. All characters are asked before the first prompt of each chapter and at its end."""
    set_window(LARGE)
    player = Player(SagaWriter(seed, subjects=subjects, cast=_CAST), stage="chapter 1")
    for number in range(1, chapters + 1):
        is_forked = bool(number % 2)
        with player:
            if number > 1:
                _lock(player)
                player.ask_all()
                player.ask_world()
            _play(player, turns)
            if not is_forked:
                _end(player)
        if is_forked:
            player = _go_by_a_fork(player, turns - _FORKED_BEFORE_END, seed + number)
        if number < chapters:
            assert isinstance(player.writer, SagaWriter)
            writer = player.writer.next_chapter()
            chapter = _begin(player.chapter, writer.story)
            tallies, stage = player.tallies, f"chapter {number + 1}"
            player = Player(writer, chapter.pk, tallies=tallies, stage=stage)
    return player.tallies


def _play(player: Player, turns: int) -> None:
    for number in range(1, turns + 1):
        player.play()
        if number > turns // 2 and not number % (turns // 4):
            player.correct()
        player.ask(number % _CAST + 1, LARGE)
        player.ask_world()
    player.remember()
    player.ask_all()
    player.ask_world()


def _go_by_a_fork(player: Player, number: int, seed: int) -> Player:
    stage = player.stage
    fork = player.fork(number, seed)
    with fork:
        fork.stage = f"{stage}, the fork"
        for _ in range(_TURNS_OF_A_FORK):
            fork.play()
        fork.remember()
        fork.ask_all()
        _end(fork)
    choose_chapter(fork.chapter.pk)
    return fork


def _end(player: Player) -> None:
    """End the chapter, so that memory has its last turns too."""
    request_end(player.chapter.pk, accept_calls=True)
    player.remember()
    assert player.chapter.state == "ENDED", player.chapter.state


def _begin(before: Session, story: Chapter) -> Session:
    """Begin the next chapter, in which each person has another slot, or takes no part."""
    chapter = begin_next(before.story_id)
    assert chapter.follows_id == before.pk, "The next chapter comes from the one that is chosen."
    origins = {one.name: one for one in before.members.all()}
    chapter.members.all().delete()
    slots = {name: slot for slot, name in enumerate(story.people, 1)}
    CastMember.objects.bulk_create(
        CastMember(
            session=chapter,
            slot=slots.get(name),
            is_selected=name in slots,
            name=name,
            identity_text=f"{name} is stubborn.",
            origin=origins.get(name),
        )
        for name in sorted({*origins, *slots})
    )
    return Session.objects.get(pk=chapter.pk)


def _lock(player: Player) -> None:
    request_lock(player.chapter.pk)
    player.remember()
