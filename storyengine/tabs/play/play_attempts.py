"""Reads the attempts that Tab 2 shows beside the turns: the unfinished attempts, and the committed
attempts at the latest turn."""

import uuid
from dataclasses import dataclass
from functools import cached_property

from sessions.language.text import is_blank
from sessions.models import Attempt, Session
from sessions.play.breaking import attempts_set_aside
from sessions.record.chosen_events import committed_attempts
from sessions.record.transcript import normalize_blank_lines
from sessions.roster import Character


@dataclass(frozen=True)
class UnfinishedAttempt:
    """An attempt that is in flight, broken or set aside. Its words are in no event, so they are
    read from its row."""

    attempt: Attempt
    chapter: Session

    @property
    def character(self) -> Character | None:
        """The character who acts, or None if nobody of the cast acts."""
        actor = self.attempt.actor
        return None if actor is None else self.chapter.character(actor)

    @property
    def prefix(self) -> str:
        """The number before the words, such as "8) ". A broken prompt has no number, so the prefix
        is ""."""
        if self.is_reroll:
            return f"{self.chapter.prompt_index}) "
        return f"{self.chapter.prompt_index + 1}) " if self.attempt.is_running else ""

    @property
    def is_reroll(self) -> bool:
        return self.attempt.kind == Attempt.Kind.REROLL

    @cached_property
    def words(self) -> str:
        """The words of the prompt. They are "" for a re-roll with the same words as the turn that
        the page shows above."""
        turn = self.attempt.turn
        if turn is not None and turn.chosen.words == self.attempt.words:
            return ""
        return normalize_blank_lines(self.attempt.words)

    @property
    def text(self) -> str:
        return normalize_blank_lines(self.attempt.partial_text)

    @property
    def has_text(self) -> bool:
        return not is_blank(self.attempt.partial_text)


@dataclass(frozen=True)
class Choice:
    """The committed attempts at the latest turn. One of them is chosen."""

    number: int
    attempt_ids: list[uuid.UUID]
    chosen: Attempt

    @property
    def count(self) -> int:
        return len(self.attempt_ids)

    @property
    def position(self) -> int:
        """The place of the chosen attempt among the attempts. The first attempt has the place 1."""
        return self.attempt_ids.index(self.chosen.pk) + 1

    @property
    def earlier(self) -> uuid.UUID | None:
        return self.attempt_ids[self.position - 2] if self.position > 1 else None

    @property
    def later(self) -> uuid.UUID | None:
        return self.attempt_ids[self.position] if self.position < self.count else None


def read_set_aside(chapter: Session) -> list[UnfinishedAttempt]:
    """Return the attempts that the user set aside, oldest first."""
    return [UnfinishedAttempt(one, chapter) for one in attempts_set_aside(chapter)]


def newest_set_aside(chapter: Session) -> UnfinishedAttempt | None:
    prompts = chapter.attempts.filter(kind=Attempt.Kind.PROMPT)
    # The query excludes the pending statuses. If it named the wanted statuses, SQLite would not
    # find the newest attempt by its index.
    newest = prompts.exclude(status__in=Attempt.PENDING).order_by("-submitted_at").first()
    is_offered = newest and newest.status == Attempt.Status.SET_ASIDE and newest.words
    return shown(newest, chapter) if is_offered else None


def read_choice(chapter: Session) -> Choice | None:
    """Return the committed attempts at the latest turn, or None if there is no turn yet."""
    number = chapter.prompt_index
    attempts = committed_attempts(chapter.pk).filter(turn__number=number)
    found = list(attempts.values_list("pk", "turn__chosen"))
    if not found:
        return None
    chosen = chapter.attempts.get(pk=found[0][1])
    return Choice(number, [pk for pk, _ in found], chosen)


def shown(attempt: Attempt | None, chapter: Session) -> UnfinishedAttempt | None:
    return UnfinishedAttempt(attempt, chapter) if attempt else None
