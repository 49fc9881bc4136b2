"""Checks the rules that every stored chapter keeps. A chapter from a file must pass before it is
stored."""

from collections.abc import Iterable
from datetime import datetime

from pydantic import ValidationError

from agents.modes.declaration import Stage
from agents.modes.registry import has_stage
from sessions.limits import MAX_PEOPLE
from sessions.models import PERSON, THOUGHT
from sessions.play.events import reply
from storyengine.exchange.chapter_file import (
    AttemptEntry,
    ChangeEntry,
    Chapter,
    EventEntry,
    MemoryBlockEntry,
    PersonChange,
    TrialChange,
    TurnEntry,
    UnansweredEntry,
)
from storyengine.exchange.draft_rules import check_prose, check_sources, check_working_copies
from storyengine.exchange.file_errors import refuse
from storyengine.exchange.mode_rules import (
    all_attempts,
    check_kinds,
    check_mode_content,
    mode_named,
)


def check_invariants(chapter: Chapter) -> None:
    """Check all rules for a chapter. Raises BadChapterFile."""
    _check_cast(chapter)
    check_mode_content(chapter)
    if chapter.state == "DRAFT_TAB1":
        _check_not_begun(chapter)
        return
    check_kinds(chapter)
    _check_people(chapter)
    _check_turns(chapter)
    _check_results(chapter)
    _check_blocks(chapter)
    _check_order((draft.created_at for draft in chapter.narrative_drafts), "narrative_drafts")
    for at, draft in enumerate(chapter.narrative_drafts):
        check_sources(chapter, at)
        last = draft.source_snapshot.max_prompt_index_used
        _check_attempt_of(draft.attempt, last, chapter, f"narrative_drafts[{at}].attempt")
        check_prose(chapter, at)
    check_working_copies(chapter)
    _check_unanswered(chapter)
    covered, prompts = chapter.last_summarized_prompt_index, chapter.prompt_index
    is_remembered = has_stage(chapter.mode, Stage.MEMORY)
    if covered and not is_remembered:
        refuse("last_summarized_prompt_index", f"must be 0: {chapter.mode} has no memory")
    if chapter.narrative_drafts and not has_stage(chapter.mode, Stage.NARRATION):
        refuse("narrative_drafts", f"must be empty: {chapter.mode} has no narration")
    if chapter.state == "ENDED" and not (prompts > 0 and (covered == prompts or not is_remembered)):
        refuse("state", "is ENDED, but memory does not cover every prompt")


def _check_cast(chapter: Chapter) -> None:
    slots = [one.slot for one in chapter.cast if one.slot]
    if len(set(slots)) != len(slots):
        refuse("cast", "must name each slot once")
    selected = chapter.selected_agent_slots
    if not selected or selected != list(range(1, len(selected) + 1)):
        refuse("the selected slots of cast", "must be 1 to n without a gap")
    _check_slot(chapter.next_agent_slot, chapter, "next_agent_slot")
    if len(chapter.cast) - len(slots) > MAX_PEOPLE:
        refuse("cast", f"has more than {MAX_PEOPLE} people without a slot")
    for at, one in enumerate(chapter.cast):
        if one.slot is None and not (one.name and one.is_selected):
            refuse(f"cast[{at}]", "is a person without a slot, who must have a name and take part")


def _check_people(chapter: Chapter) -> None:
    """Check that each number of a person who appears in play belongs to only one person.

    The same person may be in several changes, because an edit copies the changes of its source.
    """
    known: dict[object, object] = {}
    changes = (
        (f"{place}.changes[{at}].payload", one)
        for place, attempt in all_attempts(chapter)
        for at, one in enumerate(attempt.changes)
    )
    for place, one in changes:
        if one.kind != PERSON:
            continue
        try:
            person = PersonChange.model_validate(one.payload)
        except ValidationError:
            keys = ", ".join(PersonChange.model_fields)
            refuse(place, f"must be a person, with the keys {keys}")
        if known.setdefault(person.number, person) != person:
            refuse(place, "has the number of another person")


def _check_results(chapter: Chapter) -> None:
    """Check that each late result names an attempt of the file, and that no attempt asks twice for
    the same result."""
    asked: set[tuple[int, int, str, str]] = set()
    for at, result in enumerate(chapter.results):
        place = f"results[{at}]"
        if not 1 <= result.turn <= chapter.prompt_index:
            refuse(f"{place}.turn", "must be the number of a turn")
        _check_attempt_of(result.attempt, result.turn, chapter, f"{place}.attempt")
        one = result.turn, result.attempt, result.job_kind, result.kind
        if one in asked:
            refuse(place, "is asked for a second time by the same attempt")
        asked.add(one)


def _check_changes(changes: list[ChangeEntry], chapter: Chapter, place: str) -> None:
    """Check that the changes of acts come last. Check also that no late result is taken twice, and
    that each taken result has a payload."""
    if sorted(changes, key=lambda one: one.is_act) != changes:
        refuse(place, "must have the acts last")
    taken = [one.result for one in changes if one.result is not None]
    if len(set(taken)) != len(taken) or max(taken, default=-1) >= len(chapter.results):
        refuse(place, "must take entries of results, each once")
    if any(chapter.results[one].payload is None for one in taken):
        refuse(place, "must take no entry of results that has no payload")


def _check_slot(slot: int | None, chapter: Chapter, place: str) -> None:
    if slot not in chapter.selected_agent_slots:
        refuse(place, "is none of the selected agents")


def _check_not_begun(chapter: Chapter) -> None:
    for name in ("prompt_index", "last_summarized_prompt_index"):
        if getattr(chapter, name):
            refuse(name, "must be 0 before a chapter has begun")
    for name in (
        *("turns", "results", "memory_blocks", "unanswered_attempts"),
        *("narrative_drafts", "chosen_draft", "working_copies"),
    ):
        if getattr(chapter, name):
            refuse(name, "must be empty before a chapter has begun")


def _check_turns(chapter: Chapter) -> None:
    """Check that the turns are numbered 1 to n, and that each names its chosen attempt."""
    if chapter.prompt_index != len(chapter.turns):
        refuse("prompt_index", f"must be {len(chapter.turns):,}, the number of turns")
    for at, turn in enumerate(chapter.turns):
        place = f"turns[{at}]"
        if turn.number != at + 1:
            refuse(f"{place}.number", f"must be {at + 1:,}: turns go from 1 to n")
        _check_attempt_named(turn.chosen, turn, f"{place}.chosen")
        times = (attempt.committed_at for attempt in turn.attempts)
        _check_order(times, f"{place}.attempts")
        for number, attempt in enumerate(turn.attempts):
            of_attempt = f"{place}.attempts[{number}]"
            _check_source(attempt, number, turn, of_attempt)
            _check_attempt(attempt, chapter, of_attempt)
            if number != turn.chosen and any(one.is_act for one in attempt.changes):
                refuse(f"{of_attempt}.changes", "must hold no act, since another attempt is chosen")


def _check_source(
    attempt: AttemptEntry | UnansweredEntry, number: int | None, turn: TurnEntry | None, place: str
) -> None:
    """Check that an edit or a trial names the attempt that it was made from, and that only a trial
    has a changed layer.

    `number` is the place of the attempt at its turn, or None if the attempt is unanswered.
    """
    if (attempt.source is not None) != (attempt.kind in ("edit", "trial")):
        refuse(f"{place}.source", "must name an attempt for an edit or a trial, and else be null")
    if attempt.source is not None and turn is not None:
        _check_attempt_named(attempt.source, turn, f"{place}.source")
        if attempt.source == number:
            refuse(f"{place}.source", "must be another attempt")
    if attempt.kind == "trial":
        try:
            TrialChange.model_validate(attempt.changed_layer)
        except ValidationError:
            keys = ", ".join(TrialChange.model_fields)
            refuse(
                f"{place}.changed_layer", f"must be what the trial changed, with the keys {keys}"
            )
    elif attempt.changed_layer is not None:
        refuse(f"{place}.changed_layer", "must be null, since only a trial changes a layer")


def _check_attempt(attempt: AttemptEntry, chapter: Chapter, place: str) -> None:
    _check_writer(attempt, chapter, place)
    _check_changes(attempt.changes, chapter, f"{place}.changes")
    makes_own_events = mode_named(chapter.mode).play.outcome is not reply
    # An event may lack a speaker only if the attempt has no actor, or if the mode itself makes the
    # events of its attempts.
    may_be_narrated = attempt.actor is None or makes_own_events
    for at, event in enumerate(attempt.events):
        _check_event(event, chapter, f"{place}.events[{at}]", may_be_narrated=may_be_narrated)
    roles = [event.role for event in attempt.events]
    # An attempt without words of the user has no event of the user.
    words = roles[:1] if attempt.words else []
    told = roles[len(words) :]
    # A mode that makes its own events may tell a change of the world before anybody speaks.
    is_told = told[:1] == ["agent"] or (makes_own_events and bool(told))
    if words not in ([], ["user"]) or "user" in told or not is_told:
        refuse(f"{place}.events", "must begin with the words of the prompt and a reply to them")
    if attempt.words and attempt.events[0].text != attempt.words:
        refuse(f"{place}.events[0].text", "must be the words of the attempt")


def _check_event(event: EventEntry, chapter: Chapter, place: str, *, may_be_narrated: bool) -> None:
    _check_witnesses(event.witnesses, chapter, f"{place}.witnesses")
    if event.agent_slot is None:
        if event.role == "agent" and not may_be_narrated:
            refuse(f"{place}.agent_slot", "is none of the selected agents")
    elif event.role != "agent":
        refuse(f"{place}.agent_slot", "must be null where no agent speaks")
    else:
        _check_member(event.agent_slot, chapter, f"{place}.agent_slot")
    if event.kind == THOUGHT and event.witnesses != [event.agent_slot]:
        refuse(f"{place}.witnesses", "must name the one who thinks it, and nobody else")


def _check_member(number: int, chapter: Chapter, place: str) -> None:
    if number not in chapter.members:
        refuse(place, "is none of the selected agents")


def _check_witnesses(witnesses: list[int] | None, chapter: Chapter, place: str) -> None:
    if witnesses is None:
        return
    if len(set(witnesses)) != len(witnesses):
        refuse(place, "must name each agent once")
    for number in witnesses:
        _check_member(number, chapter, place)


def _check_attempt_named(place: int, turn: TurnEntry, where: str) -> None:
    if place >= len(turn.attempts):
        refuse(where, f"must be the place of one of the attempts at turn {turn.number:,}")


def _check_attempt_of(place: int | None, number: int, chapter: Chapter, where: str) -> None:
    """Check that `place` is the place of an attempt at turn `number`, unless it is None."""
    if place is None:
        return
    if not number:
        refuse(where, "must be null before the first turn")
    _check_attempt_named(place, chapter.turns[number - 1], where)


def _check_blocks(chapter: Chapter) -> None:
    """Check that there is one lock (none in a mode without a lock), and that the deltas of chosen
    attempts cover each prompt once."""
    blocks = list(enumerate(chapter.memory_blocks))
    _check_order((block.created_at for _, block in blocks), "memory_blocks")
    locks = [block for _, block in blocks if block.type == "world_chapter_lock"]
    has_lock = has_stage(chapter.mode, Stage.LOCK)
    if len(locks) != has_lock:
        how_many = "one" if has_lock else "no"
        refuse("memory_blocks", f"must hold {how_many} world_chapter_lock once a chapter has begun")
    told: set[tuple[object, ...]] = set()
    # The covered stretches, each with the place of its first delta. A stretch has one delta for
    # each audience.
    stretches: dict[tuple[int, int], int] = {}
    for at, block in blocks:
        _check_place_of(block, chapter, f"memory_blocks[{at}]")
        if block.type != "turn_delta":
            continue
        stretch = block.from_prompt_index, block.to_prompt_index
        one = *stretch, block.attempt, tuple(block.audience or ())
        if one in told:
            refuse(
                f"memory_blocks[{at}]",
                "is a second delta of the same prompts, attempt and audience",
            )
        told.add(one)
        if block.attempt == chapter.turns[block.to_prompt_index - 1].chosen:
            stretches.setdefault(stretch, at)
    covered = 0
    for (first, last), at in sorted(stretches.items()):
        if first != covered + 1:
            refuse(
                f"memory_blocks[{at}].from_prompt_index",
                f"must be {covered + 1:,}: deltas cover every prompt once",
            )
        covered = last
    if chapter.last_summarized_prompt_index != covered:
        refuse("last_summarized_prompt_index", f"must be {covered:,}, where the last delta ends")


def _check_place_of(block: MemoryBlockEntry, chapter: Chapter, place: str) -> None:
    first, last = block.from_prompt_index, block.to_prompt_index
    is_of_no_attempt = block.type in ("world_chapter_lock", "canon_correction", "story_so_far")
    if last > chapter.prompt_index:
        refuse(f"{place}.to_prompt_index", "is beyond the last prompt")
    match block.type:
        case "world_chapter_lock" if first or last:
            refuse(place, "is a world_chapter_lock, which goes from 0 to 0")
        case "canon_correction" if first != last:
            refuse(place, "is a canon_correction, which covers no prompts")
    if not (is_of_no_attempt or 1 <= first <= last):
        refuse(f"{place}.to_prompt_index", "is before the block's first prompt")
    if is_of_no_attempt != (block.attempt is None):
        refuse(f"{place}.attempt", "must be null for a lock and a correction, and else an attempt")
    _check_attempt_of(block.attempt, last, chapter, f"{place}.attempt")
    _check_audience(block, chapter, f"{place}.audience")


def _check_audience(block: MemoryBlockEntry, chapter: Chapter, place: str) -> None:
    if (block.type == "world_chapter_lock") != (block.audience is None):
        refuse(place, "must be null for a world_chapter_lock, and else name agents")
    _check_witnesses(block.audience, chapter, place)
    if block.audience is not None and block.audience != sorted(block.audience):
        refuse(place, "must be in ascending order")


def _check_writer(attempt: AttemptEntry | UnansweredEntry, chapter: Chapter, place: str) -> None:
    mode = mode_named(chapter.mode)
    agent = next((one for one in mode.agents if one.name == attempt.agent), None)
    if agent is None:
        refuse(f"{place}.agent", f"is no agent that {mode.name} declares")
    if attempt.actor is not None or agent.is_character:
        _check_slot(attempt.actor, chapter, f"{place}.actor")
    _check_witnesses(attempt.witnesses, chapter, f"{place}.witnesses")


def _check_unanswered(chapter: Chapter) -> None:
    attempts = chapter.unanswered_attempts
    _check_order((attempt.submitted_at for attempt in attempts), "unanswered_attempts")
    waiting = [one for one in attempts if one.status != "set_aside" and one.kind != "trial"]
    if len(waiting) > 1:
        refuse("unanswered_attempts", "may hold one attempt at most that is not set_aside")
    for at, attempt in enumerate(attempts):
        place = f"unanswered_attempts[{at}]"
        _check_writer(attempt, chapter, place)
        _check_changes(attempt.changes, chapter, f"{place}.changes")
        if any(one.is_act for one in attempt.changes):
            refuse(f"{place}.changes", "must hold no act, since the attempt was never chosen")
        if not _is_turn_of(attempt, chapter):
            refuse(f"{place}.turn", "must be a turn for a reroll or a trial, and null for a prompt")
        turn = None if attempt.turn is None else chapter.turns[attempt.turn - 1]
        _check_source(attempt, None, turn, place)


def _is_turn_of(attempt: UnansweredEntry, chapter: Chapter) -> bool:
    if attempt.turn is None:
        return attempt.kind == "prompt"
    return attempt.kind != "prompt" and 1 <= attempt.turn <= chapter.prompt_index


def _check_order(times: Iterable[datetime], place: str) -> None:
    ordered = list(times)
    if ordered != sorted(ordered):
        refuse(place, "must be in the order of their times")
