"""What holds of every chapter, checked before one is taken from a file."""

from collections.abc import Iterable
from datetime import datetime
from typing import NoReturn

from storyengine.exchange.chapter_file import Chapter, EventEntry, MemoryBlockEntry, TurnEntry
from storyengine.exchange.exceptions import BadChapterFile


def check_invariants(chapter: Chapter) -> None:
    """Raises BadChapterFile."""
    _check_cast(chapter)
    if chapter.state == "DRAFT_TAB1":
        _check_not_begun(chapter)
        return
    _check_events(chapter)
    _check_blocks(chapter)
    _check_drafts(chapter)
    _check_turns(chapter)
    covered, prompts = chapter.last_summarized_prompt_index, chapter.prompt_index
    if chapter.state == "ENDED" and not covered == prompts > 0:
        _refuse("state", "is ENDED, but memory does not cover every prompt")


def _refuse(place: str, problem: str) -> NoReturn:
    raise BadChapterFile(f"chapter.{place} {problem}")


def _check_cast(chapter: Chapter) -> None:
    slots = chapter.selected_agent_slots
    if slots != list(range(1, len(slots) + 1)):
        _refuse("selected_agent_slots", "must be 1 to n without a gap")
    _check_slot(chapter.next_agent_slot, chapter, "next_agent_slot")


def _check_slot(slot: int | None, chapter: Chapter, place: str) -> None:
    if slot not in chapter.selected_agent_slots:
        _refuse(place, "is none of the selected agents")


def _check_not_begun(chapter: Chapter) -> None:
    for name in ("prompt_index", "last_summarized_prompt_index"):
        if getattr(chapter, name):
            _refuse(name, "must be 0 before a chapter has begun")
    for name in ("events", "memory_blocks", "narrative_drafts", "unanswered_turns"):
        if getattr(chapter, name):
            _refuse(name, "must be empty before a chapter has begun")


def _check_events(chapter: Chapter) -> None:
    """Prompts 1 to n, each with its user event first and a reply at least."""
    number, replies = 0, 0
    previous: EventEntry | None = None
    for at, event in enumerate(chapter.events):
        place = f"events[{at}]"
        if event.role == "user":
            if number and not replies:
                _refuse(place, f"follows prompt {number:,}, which has no reply")
            number, replies = number + 1, 0
        elif event.role == "agent":
            if not number:
                _refuse(place, "answers no prompt")
            replies += 1
        _check_speaker(event, chapter, f"{place}.agent_slot")
        if event.prompt_index != number:
            _refuse(f"{place}.prompt_index", f"must be {number:,}: prompts go from 1 to n")
        if previous and previous.prompt_index == number:
            _check_later(event.created_at, previous.created_at, f"{place}.created_at")
        previous = event
    if number and not replies:
        _refuse("events", f"ends with prompt {number:,}, which has no reply")
    if chapter.prompt_index != number:
        _refuse("prompt_index", f"must be {number:,}, the number of prompts in events")


def _check_speaker(event: EventEntry, chapter: Chapter, place: str) -> None:
    if event.role == "agent":
        _check_slot(event.agent_slot, chapter, place)
    elif event.agent_slot is not None:
        _refuse(place, "must be null where no agent speaks")


def _check_later(time: datetime, previous: datetime, place: str) -> None:
    if time <= previous:
        _refuse(place, "must be later than that of the entry before")


def _check_blocks(chapter: Chapter) -> None:
    """One lock, and deltas that cover prompts 1 to m once each."""
    blocks = list(enumerate(chapter.memory_blocks))
    _check_order((block.created_at for _, block in blocks), "memory_blocks")
    locks = [block for _, block in blocks if block.type == "world_chapter_lock"]
    if len(locks) != 1:
        _refuse("memory_blocks", "must hold one world_chapter_lock once a chapter has begun")
    for at, block in blocks:
        _check_place_of(block, chapter, f"memory_blocks[{at}]")
    deltas = [(at, block) for at, block in blocks if block.type == "turn_delta"]
    covered = 0
    for at, block in sorted(deltas, key=lambda one: one[1].from_prompt_index):
        if block.from_prompt_index != covered + 1:
            _refuse(
                f"memory_blocks[{at}].from_prompt_index",
                f"must be {covered + 1:,}: deltas cover every prompt once",
            )
        covered = block.to_prompt_index
    if chapter.last_summarized_prompt_index != covered:
        _refuse("last_summarized_prompt_index", f"must be {covered:,}, where the last delta ends")


def _check_place_of(block: MemoryBlockEntry, chapter: Chapter, place: str) -> None:
    first, last = block.from_prompt_index, block.to_prompt_index
    if last > chapter.prompt_index:
        _refuse(f"{place}.to_prompt_index", "is beyond the last prompt")
    match block.type:
        case "world_chapter_lock" if first or last:
            _refuse(place, "is a world_chapter_lock, which goes from 0 to 0")
        case "turn_delta" if not 1 <= first <= last:
            _refuse(f"{place}.to_prompt_index", "is before the block's first prompt")
        case "canon_correction" if first != last:
            _refuse(place, "is a canon_correction, which covers no prompts")


def _check_drafts(chapter: Chapter) -> None:
    _check_order((draft.created_at for draft in chapter.narrative_drafts), "narrative_drafts")
    for at, draft in enumerate(chapter.narrative_drafts):
        place = f"narrative_drafts[{at}].source_snapshot"
        snapshot = draft.source_snapshot
        if snapshot.max_prompt_index_used > chapter.prompt_index:
            _refuse(f"{place}.max_prompt_index_used", "is beyond the last prompt")
        used = snapshot.memory_blocks_used
        if len(set(used)) != len(used) or max(used, default=-1) >= len(chapter.memory_blocks):
            _refuse(f"{place}.memory_blocks_used", "must name entries of memory_blocks, each once")


def _check_turns(chapter: Chapter) -> None:
    turns = chapter.unanswered_turns
    _check_order((turn.submitted_at for turn in turns), "unanswered_turns")
    if sum(turn.status != "set_aside" for turn in turns) > 1:
        _refuse("unanswered_turns", "may hold one turn at most that is not set_aside")
    for at, turn in enumerate(turns):
        place = f"unanswered_turns[{at}]"
        _check_slot(turn.agent_slot, chapter, f"{place}.agent_slot")
        if not _is_prompt_of(turn, chapter):
            _refuse(f"{place}.prompt_index", "must be a prompt for a reroll, and null for a prompt")


def _is_prompt_of(turn: TurnEntry, chapter: Chapter) -> bool:
    if turn.prompt_index is None:
        return turn.kind == "prompt"
    return turn.kind == "reroll" and 1 <= turn.prompt_index <= chapter.prompt_index


def _check_order(times: Iterable[datetime], place: str) -> None:
    ordered = list(times)
    if ordered != sorted(ordered):
        _refuse(place, "must be in the order of their times")
