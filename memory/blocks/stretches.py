"""Decides which prompts each delta covers, and where a character's recent context begins.

A stretch begins after the summary pointer, and has as many prompts as the chapter says
(`chunk_size_prompts`). When a chapter ends, the remaining prompts are one stretch. A mode may end a
stretch earlier, at a turn with a change of a kind that the mode names. A mode may also keep its
deltas from the characters, so that only the narrator and the user know them.
"""

import math
import uuid
from bisect import bisect_right
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import F, Q

from memory.blocks.blocks import stretch_starts
from memory.keeping import KeptRecent
from sessions.models import Session
from sessions.play.played_world import changes_that_count
from sessions.record.chosen_events import chosen_events

# The number of full stretches whose missing memory is written without the GM's consent. The GM has
# to consent if the missing deltas cover more prompts than these full stretches have. The GM also
# has to consent if the deltas take more model calls than these stretches have prompts. One stretch
# can take many calls: one for each set of witnesses.
STRETCHES_UNASKED = 2
# Numbers of members in ascending order, for example the characters who know a block.
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
    """The rule of a mode: where its stretches end, and whether characters know its deltas.

    A stretch ends early at a turn whose chosen attempt has a change of a kind in `ended_by`. If
    `for_characters` is False, a stretch has a single delta, which only the narrator and the user
    know.
    """

    ended_by: frozenset[str] = frozenset()
    for_characters: bool = True


# The rules that modes declare, by mode (see agents.modes.registry). The rule of a mode without
# memory is None.
_rules: dict[str, StretchRule | None] = {}
_RULE = StretchRule()


def declare_stretches(mode: str, rule: StretchRule | None) -> None:
    _rules[mode] = rule


def _rule_of(chapter: Session) -> StretchRule:
    return _rules.get(chapter.mode) or _RULE


def due_stretches(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """Return the stretches that memory does not cover yet, in order. In a mode without memory there
    are none."""
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
    """Return whether the chapter's mode ends some stretches before they are full."""
    return bool(_rule_of(chapter).ended_by)


def is_asked_in_play(chapter: Session, stretch: Stretch, last_attempt: uuid.UUID | None) -> bool:
    """Return whether this stretch is due during play, because it is full or because the mode ended
    it. Any other stretch becomes due only when the chapter ends."""
    if stretch.size == chapter.chunk_size_prompts:
        return True
    kinds = _rule_of(chapter).ended_by
    ends = Q(run_id=None) | Q(run_id=F("attempt__run_id"))
    changes = chapter.changes.filter(ends, attempt=last_attempt, kind__in=kinds)
    return bool(kinds) and changes.exists()


def told_to(chapter: Session, witnesses: Collection[int]) -> Audience:
    """Return the characters who may read the block that tells an event with these witnesses."""
    return tuple(sorted(set(witnesses))) if _rule_of(chapter).for_characters else ()


def _early_ends(chapter: Session, first: int) -> set[int]:
    """Return the prompts, from `first` on, where the mode ends a stretch early."""
    kinds = _rule_of(chapter).ended_by
    if not kinds:
        return set()
    ends = changes_that_count(chapter).filter(kind__in=kinds, attempt__turn__number__gte=first)
    return set(ends.values_list("attempt__turn__number", flat=True))


def audiences_in(
    chapter: Session, stretch: Stretch, *, last_attempt: uuid.UUID | None = None
) -> dict[Audience, tuple[int, ...]]:
    """Return the audiences of the stretch's deltas, the largest audience first. The value for each
    audience is the list of the prompts that its delta tells.

    The delta for each audience takes one call of a model. `last_attempt` is the id of an attempt at
    the stretch's last prompt. With it, the events of this attempt replace the events of the chosen
    attempt.
    """
    [found] = _find_audiences(chapter, [stretch], last_attempt)
    return found


def audiences_of(chapter: Session, stretches: Sequence[Stretch]) -> list[list[Audience]]:
    """Return the audiences of each stretch. The stretches must follow each other without a gap."""
    if not (stretches and chapter.differs_by_reader):
        return [[told_to(chapter, chapter.everybodys_numbers)] for _ in stretches]
    state = (chapter.updated_at, tuple(stretches))
    kept = _kept_audiences.get(chapter.pk)
    if kept is None or kept[0] != state:
        kept = (state, [list(found) for found in _find_audiences(chapter, stretches)])
        _kept_audiences.set(chapter.pk, kept, size=len(stretches))
    return kept[1]


def count_calls(chapter: Session, stretches: Sequence[Stretch]) -> int:
    """Return the number of model calls for these stretches: one for each audience of each
    stretch."""
    return sum(map(len, audiences_of(chapter, stretches)))


# A cache of audiences, because open pages need them every two seconds. The key is the chapter's id.
# The value has the audiences of each stretch, and the state of the chapter for which they were
# computed.
_AudiencesState = tuple[datetime, tuple[Stretch, ...]]
_kept_audiences: KeptRecent[uuid.UUID, tuple[_AudiencesState, list[list[Audience]]]] = KeptRecent(
    4_096
)


def _find_audiences(
    chapter: Session, stretches: Sequence[Stretch], last_attempt: uuid.UUID | None = None
) -> list[dict[Audience, tuple[int, ...]]]:
    lasts = [stretch.last for stretch in stretches]
    found: list[dict[Audience, list[int]]] = [{} for _ in stretches]
    events = chosen_events(
        chapter, from_prompt=stretches[0].first, to_prompt=lasts[-1], last_attempt=last_attempt
    )
    for number, witnesses in events.values_list("prompt_index", "witnesses"):
        of_stretch = found[bisect_right(lasts, number - 1)]
        of_stretch.setdefault(told_to(chapter, witnesses), []).append(number)
    # The events are in the order of their prompts.
    return [
        {
            audience: tuple(dict.fromkeys(numbers))
            for audience, numbers in sorted(
                of_stretch.items(), key=lambda one: (-len(one[0]), one[0])
            )
        }
        for of_stretch in found
    ]


def stretches_to_accept(chapter: Session, *, is_ending: bool) -> list[Stretch]:
    """Return all due stretches if the GM has to accept the model calls for these stretches first.
    Otherwise return an empty list."""
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
    """Return the number of model calls that the GM has to accept before more memory is written, or
    0."""
    return count_calls(chapter, stretches_to_accept(chapter, is_ending=is_ending))


@dataclass(frozen=True)
class CatchingUp:
    """The number of stretches that are written, and the number of all stretches. Pages show these
    numbers while the model calls that the GM accepted are made."""

    written: int
    count: int


def catching_up(chapter: Session) -> CatchingUp | None:
    """Return the number of stretches that are written, and the number of all stretches. Returns
    None if no stretch is due, or if the GM has not accepted any model calls."""
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
    that is not covered. The context begins at one of these prompts and has at least the last `size`
    prompts. So memory tells every prompt that the context leaves out.

    The start moves on by `stretches` stretches at a time. Between two moves the context only grows
    at its end, so that prefix caches can reuse its beginning.
    """
    at = max(bisect_right(starts, last_prompt - size + 1) - 1, 0)
    return starts[at // stretches * stretches]
