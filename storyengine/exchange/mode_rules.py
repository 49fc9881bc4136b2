"""Checks the parts of a file that depend on the chapter's mode: the setup, the kinds, and the
world."""

from collections.abc import Iterator
from typing import Any

from agents.exceptions import BadSetup
from agents.modes.declaration import Mode
from agents.modes.fields import check_given, check_setup
from agents.modes.registry import find_mode
from memory.fold.records import Prompts
from memory.telling.block_kinds import BlockKind
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Change, Session, Turn
from storyengine.exchange.chapter_file import (
    AttemptEntry,
    Chapter,
    MemoryBlockEntry,
    UnansweredEntry,
)
from storyengine.exchange.file_errors import OTHER_MODE, refuse

# The errors that a mode's function raises for a payload that it cannot use.
_CANNOT_TAKE = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError),
    InvalidInput,
)


def mode_named(name: str) -> Mode:
    """Return the mode with this name. Raises BadChapterFile if no such mode is installed."""
    mode = find_mode(name)
    if mode is None:
        refuse("mode", f'is "{name}", a way to play that is not installed here', OTHER_MODE)
    return mode


def check_mode_content(chapter: Chapter) -> None:
    """Check the fields that the mode adds to Tab 1, and the world that it handed on. Raises
    BadChapterFile."""
    mode = mode_named(chapter.mode)
    parts = {"setup": mode.setup.fields, "handed_on": mode.world.hands_on}
    added = {name for name, declared in parts.items() if declared is not None}
    if chapter.mode_content.keys() - added:
        only = " and ".join(sorted(added))
        nothing = f"must be empty, since {mode.name} adds nothing"
        refuse("mode_content", f"may hold nothing but {only}" if only else nothing)
    if mode.setup.fields is None:
        return
    try:
        check_setup(mode, chapter.mode_content.get("setup", {}))
    except BadSetup as error:
        # The message may name a field of the mode. Any other key in the file may have words of a
        # story.
        [first, *_] = [*error.problems[0][0], ""]
        place = f".{first}" if first in mode.setup.fields.model_fields else ""
        refuse(f"mode_content.setup{place}", f"is not as {mode.name} has it")


def check_kinds(chapter: Chapter) -> None:
    """Check that the mode declares each kind in the file, and the fields that come with prompts.

    Raises BadChapterFile.
    """
    mode = mode_named(chapter.mode)

    def check(kind: str, declared: frozenset[str], place: str, what: str) -> None:
        if kind not in declared:
            refuse(place, f"is no kind of {what} that {mode.name} declares")

    for place, attempt in all_attempts(chapter):
        events = attempt.events if isinstance(attempt, AttemptEntry) else []
        for at, event in enumerate(events):
            check(event.kind, mode.play.all_event_kinds, f"{place}.events[{at}].kind", "event")
        for at, change in enumerate(attempt.changes):
            check(change.kind, mode.world.all_change_kinds, f"{place}.changes[{at}].kind", "change")
        if attempt.given is not None:
            _check_given(mode, attempt.given, f"{place}.given")
        if isinstance(attempt, UnansweredEntry) and attempt.kept_setup is not None:
            _check_kept(mode, attempt, chapter, f"{place}.kept_setup")
    for at, block in enumerate(chapter.memory_blocks):
        check(block.type, mode.memory.all_block_kinds, f"memory_blocks[{at}].type", "memory block")
        kind = mode.memory.block_kinds.get(block.type)
        _check_block(kind, block, f"memory_blocks[{at}].json_payload")
    for at, result in enumerate(chapter.results):
        check(result.kind, mode.world.all_change_kinds, f"results[{at}].kind", "change")
        check(result.job_kind, mode.kinds_of_results, f"results[{at}].job_kind", "job")


def _check_given(mode: Mode, given: dict[str, Any], place: str) -> None:
    try:
        check_given(mode, given)
    except InvalidInput:
        refuse(place, f"is nothing that a prompt of {mode.name} carries")


def _check_kept(mode: Mode, attempt: UnansweredEntry, chapter: Chapter, place: str) -> None:
    """Check the fields of the setup that are stored with an attempt. Only one attempt of a file can
    be kept, so this check reads the setup at most once more."""
    kept = attempt.kept_setup or {}
    if attempt.kind == "trial" or attempt.status == "set_aside":
        refuse(place, "must be absent, since this attempt can never be kept")
    if kept.keys() - mode.setup.kept_fields:
        refuse(place, f"is nothing that {mode.name} stores with a reply")
    try:
        check_setup(mode, chapter.mode_content.get("setup", {}) | kept)
    except BadSetup:
        refuse(place, f"is nothing that {mode.name} stores with a reply")


def _check_block(kind: BlockKind | None, block: MemoryBlockEntry, place: str) -> None:
    if kind is None:
        return
    try:
        kind.read(block.json_payload, Prompts(block.from_prompt_index, block.to_prompt_index))
        kind.sections(block.json_payload)
    except _CANNOT_TAKE:
        refuse(place, f"is nothing that {kind.title} can tell")


def all_attempts(chapter: Chapter) -> Iterator[tuple[str, AttemptEntry | UnansweredEntry]]:
    """Yield each attempt with its place in the file. Attempts that were not committed come last."""
    for at, turn in enumerate(chapter.turns):
        for number, attempt in enumerate(turn.attempts):
            yield f"turns[{at}].attempts[{number}]", attempt
    for at, unanswered in enumerate(chapter.unanswered_attempts):
        yield f"unanswered_attempts[{at}]", unanswered


def check_world(chapter: Chapter, session: Session) -> None:
    """Check that the mode can fold the changes of each attempt into the world, as it does in play.

    `session` is the row of the chapter with Tab 1 and the cast. It need not be stored. Raises
    BadChapterFile for a payload that the mode cannot use.
    """
    folding = _Folding(mode_named(chapter.mode), session)
    # Only the worlds before and after the latest turn are kept, because a world may be as large as
    # all changes together.
    before = world = folding.begin()
    for at, turn in enumerate(chapter.turns):
        before = world
        for number, attempt in enumerate(turn.attempts):
            place = f"turns[{at}].attempts[{number}]"
            after = folding.go_on(before, attempt, turn.number, place)
            if number == turn.chosen:
                world = after
    for at, one in enumerate(chapter.unanswered_attempts):
        # An attempt that was set aside, or that is not at the latest turn, can neither be retried
        # nor kept, and a trial can never be kept. So its changes never count.
        can_count = one.status != "set_aside" and one.kind != "trial"
        if can_count and one.turn in (None, len(chapter.turns)):
            start = world if one.turn is None else before
            folding.go_on(start, one, one.turn, f"unanswered_attempts[{at}]")


class _Folding:
    def __init__(self, mode: Mode, session: Session) -> None:
        self._mode, self._session = mode, session

    def begin(self) -> Any:
        try:
            return self._mode.world.initial_state(self._session)
        except _CANNOT_TAKE:
            refuse("mode_content", f"is nothing that {self._mode.name} can begin with")

    def go_on(
        self, world: Any, entry: AttemptEntry | UnansweredEntry, number: int | None, place: str
    ) -> Any:
        """Return the world after the changes of this attempt, which is at turn `number`."""
        turn = None if number is None else Turn(session=self._session, number=number)
        attempt = Attempt(
            session=self._session,
            turn=turn,
            actor=entry.actor,
            agent=entry.agent,
            words=entry.words,
            given=entry.given,
        )
        for at, one in enumerate(entry.changes):
            world = self.take(world, one.kind, one.payload, attempt, f"{place}.changes[{at}]")
        return world

    def take(
        self, world: Any, kind: str, payload: dict[str, Any], attempt: Attempt, place: str
    ) -> Any:
        change = Change(session=self._session, attempt=attempt, kind=kind, payload=payload)
        try:
            return self._mode.world.apply_change(world, change)
        except _CANNOT_TAKE:
            refuse(f"{place}.payload", f"is nothing that {self._mode.name} can take")
