"""Decides which prompts each delta covers, and where a character's recent context begins.

A stretch has as many prompts as the chapter says (`chunk_size_prompts`), counted from the summary
pointer on. At the end of a chapter the remaining prompts are one stretch. A mode may end a stretch
earlier, at a turn with a change of a kind that it names. A mode may also have its blocks written
only for the narrator and the user.
"""

import math
import uuid
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from memory.blocks import stretch_starts
from memory.keeping import KeptRecent
from sessions.models import Session
from sessions.record import chosen_events
from sessions.world import changes_that_count

# The number of stretches that memory may be behind in play without the GM's consent: one, or two
# after a failure. The consent is needed if more prompts are missing than two stretches have. It is
# also needed if more calls are due than two stretches have prompts. An imported chapter may need
# many calls for few prompts, because each set of witnesses takes one call.
STRETCHES_UNASKED = 2
# Numbers of members in ascending order: the witnesses of an event, or the characters who know a
# block.
Audience = tuple[int, ...]


@dataclass(frozen=True)
class Stretch:
    """The prompts from `first` to `last`, both included."""

    first: int
    last: int

    @property
    def size(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True)
class StretchRule:
    """The rule of a mode: where its stretches end, and for whom their blocks are written.

    A stretch ends early at a turn whose chosen attempt has a change of a kind in `ended_by`. If
    `for_characters` is False, a stretch has a single block, which only the narrator and the user
    know.
    """

    ended_by: frozenset[str] = frozenset()
    for_characters: bool = True


# The rules by mode. agents.modes adds the rule of each mode that declares one. A mode without
# memory has None.
_rules: dict[str, StretchRule | None] = {}
_RULE = StretchRule()


def declare_stretches(mode: str, rule: StretchRule | None) -> None:
    _rules[mode] = rule


def _rule_of(chapter: Session) -> StretchRule:
    return _rules.get(chapter.mode) or _RULE


def due_stretches(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """Return the stretches that memory does not cover yet, in order. A mode without memory has
    none."""
    if _rules.get(chapter.mode, _RULE) is None:
        return []
    first, size = chapter.last_summarized_prompt_index + 1, chapter.chunk_size_prompts
    ends = _early_ends(chapter, first)
    stretches = []
    for number in range(first, chapter.prompt_index + 1):
        is_at_end = is_ending and number == chapter.prompt_index
        if number - first + 1 == size or number in ends or is_at_end:
            stretches.append(Stretch(first, number))
            first = number + 1
    return stretches


def may_end_early(chapter: Session) -> bool:
    """Return whether a stretch may have fewer prompts than its full size before the chapter
    ends."""
    return bool(_rule_of(chapter).ended_by)


def is_asked_in_play(chapter: Session, stretch: Stretch, last_attempt: uuid.UUID | None) -> bool:
    """Return whether this stretch ended in play, because it was full or the mode ended it.

    If neither is so, the stretch is due only because the chapter ends.
    """
    if stretch.size == chapter.chunk_size_prompts:
        return True
    kinds = _rule_of(chapter).ended_by
    ends = Q(run_id=None) | Q(run_id=F("attempt__run_id"))
    changes = chapter.changes.filter(ends, attempt=last_attempt, kind__in=kinds)
    return bool(kinds) and changes.exists()


def told_to(chapter: Session, witnesses: Collection[int]) -> Audience:
    """Return the audience of the block that tells an event with these witnesses."""
    return tuple(sorted(set(witnesses))) if _rule_of(chapter).for_characters else ()


def _early_ends(chapter: Session, first: int) -> set[int]:
    """Return the prompts from `first` on at which the mode ends a stretch early."""
    kinds = _rule_of(chapter).ended_by
    if not kinds:
        return set()
    ends = changes_that_count(chapter).filter(kind__in=kinds, attempt__turn__number__gte=first)
    return set(ends.values_list("attempt__turn__number", flat=True))


def audiences_in(
    chapter: Session, stretch: Stretch, *, last_attempt: uuid.UUID | None = None
) -> list[Audience]:
    """Return the different sets of witnesses of the stretch's events, the largest set first.

    Each set takes one call of a model. `last_attempt` counts as the chosen attempt at the last
    prompt.
    """
    [audiences] = _find_audiences(chapter, [stretch], last_attempt)
    return audiences


def audiences_of(chapter: Session, stretches: Sequence[Stretch]) -> list[list[Audience]]:
    """Return the audiences of each stretch. The stretches must follow each other without gaps."""
    if not (stretches and chapter.differs_by_reader):
        return [[told_to(chapter, chapter.everybodys_numbers)] for _ in stretches]
    state = (chapter.updated_at, tuple(stretches))
    kept = _kept_audiences.get(chapter.pk)
    if kept is None or kept[0] != state:
        kept = (state, _find_audiences(chapter, stretches))
        _kept_audiences.set(chapter.pk, kept, size=len(stretches))
    return kept[1]


def count_calls(chapter: Session, stretches: Sequence[Stretch]) -> int:
    """Return the number of calls that these stretches take. Each audience of a stretch takes one
    call."""
    return sum(map(len, audiences_of(chapter, stretches)))


# The cache of audiences by chapter. Each value has the state of the chapter from which it was made.
# Open pages ask for the audiences every two seconds.
_AudiencesState = tuple[datetime, tuple[Stretch, ...]]
_kept_audiences: KeptRecent[uuid.UUID, tuple[_AudiencesState, list[list[Audience]]]] = KeptRecent(
    4_096
)


def _find_audiences(
    chapter: Session, stretches: Sequence[Stretch], last_attempt: uuid.UUID | None = None
) -> list[list[Audience]]:
    lasts = [stretch.last for stretch in stretches]
    found: list[set[Audience]] = [set() for _ in stretches]
    events = chosen_events(
        chapter, from_prompt=stretches[0].first, to_prompt=lasts[-1], last_attempt=last_attempt
    )
    for number, witnesses in events.values_list("prompt_index", "witnesses"):
        found[bisect_right(lasts, number - 1)].add(told_to(chapter, witnesses))
    return [sorted(audiences, key=lambda one: (-len(one), one)) for audiences in found]


def stretches_to_accept(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """Return all due stretches if the GM has to accept their calls first, else an empty list."""
    stretches = due_stretches(chapter, is_ending=is_ending)
    accepted, prompts, calls = chapter.accepted_calls, 0, 0
    for stretch, audiences in zip(stretches, audiences_of(chapter, stretches), strict=True):
        if len(audiences) > accepted:
            prompts += stretch.size
            calls += len(audiences)
        accepted = max(accepted - len(audiences), 0)
    most = STRETCHES_UNASKED * chapter.chunk_size_prompts
    return [] if max(prompts, calls) <= most else stretches


def calls_to_accept(chapter: Session, *, is_ending: bool) -> int:
    """Return how many calls the GM has to accept before more memory is written."""
    return count_calls(chapter, stretches_to_accept(chapter, is_ending=is_ending))


@dataclass(frozen=True)
class CatchingUp:
    """The number of stretches that are written, and the number of all stretches, while the accepted
    calls are made."""

    written: int
    count: int


def catching_up(chapter: Session) -> CatchingUp | None:
    """Return how far memory has caught up.

    Returns None if memory is not behind, or if no calls were accepted.
    """
    due = len(due_stretches(chapter, is_ending=chapter.is_ending))
    if not (due and chapter.accepted_calls):
        return None
    written = math.ceil(chapter.last_summarized_prompt_index / chapter.chunk_size_prompts)
    if may_end_early(chapter):
        written = len(stretch_starts(chapter, None)) - 1
    return CatchingUp(written, written + due)


def recent_context_start(
    last_prompt: int, starts: Sequence[int], size: int, *, stretches: int = 1
) -> int:
    """Return the first prompt of a character's recent context.

    `starts` are the first prompts of the covered stretches, in order, and then the first prompt
    that is not covered. The context begins at one of these prompts, and has at least the last
    `size` prompts. So no prompt is missing from both memory and context.

    The start moves on by `stretches` stretches at a time. Between two moves the context only grows
    at its end, which prefix caches need.
    """
    at = max(bisect_right(starts, last_prompt - size + 1) - 1, 0)
    return starts[at // stretches * stretches]
