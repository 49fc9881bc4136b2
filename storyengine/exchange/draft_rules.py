"""Checks the rules for drafts, working copies and the chosen draft of a chapter from a file."""

from storyengine.exchange.chapter_file import Chapter, DraftEntry
from storyengine.exchange.file_errors import refuse


def check_sources(chapter: Chapter, at: int) -> None:
    """Check what the draft at this place was written from. Raises BadChapterFile."""
    draft, of_draft = chapter.narrative_drafts[at], f"narrative_drafts[{at}]"
    snapshot, place = draft.source_snapshot, f"{of_draft}.source_snapshot"
    if snapshot.max_prompt_index_used > chapter.prompt_index:
        refuse(f"{place}.max_prompt_index_used", "is beyond the last prompt")
    used = snapshot.memory_blocks_used
    if len(set(used)) != len(used) or max(used, default=-1) >= len(chapter.memory_blocks):
        refuse(f"{place}.memory_blocks_used", "must name entries of memory_blocks, each once")
    if draft.origin is not None and draft.origin >= at:
        refuse(f"{of_draft}.origin", "must be the place of an earlier draft")


def check_prose(chapter: Chapter, at: int) -> None:
    """Check the scenes and the kept receipts of the draft at this place. Raises BadChapterFile."""
    draft, of_draft = chapter.narrative_drafts[at], f"narrative_drafts[{at}]"
    _check_scenes(draft, f"{of_draft}.scenes")
    _check_kept_receipts(chapter, draft, f"{of_draft}.kept_receipts")


def check_working_copies(chapter: Chapter) -> None:
    """Check that working copies and the chosen draft name drafts of the file. Raises
    BadChapterFile."""
    count = len(chapter.narrative_drafts)
    edited = [copy.draft for copy in chapter.working_copies]
    if len(set(edited)) != len(edited) or max(edited, default=-1) >= count:
        refuse("working_copies", "must name entries of narrative_drafts, each once")
    if chapter.chosen_draft is not None and chapter.chosen_draft.draft >= count:
        refuse("chosen_draft.draft", "must be the place of one of the narrative_drafts")


def _check_scenes(draft: DraftEntry, place: str) -> None:
    """Check that the scenes, if there are any, tell each prompt of the draft once, and that their
    texts follow each other."""
    scenes = draft.scenes
    if not scenes:
        return
    firsts = [1, *(scene.last_prompt + 1 for scene in scenes[:-1])]
    stretches = [(scene.first_prompt, scene.last_prompt) for scene in scenes]
    last = draft.source_snapshot.max_prompt_index_used
    if [first for first, _ in stretches] != firsts or stretches[-1][1] != last:
        refuse(place, "must tell the prompts from 1 to max_prompt_index_used without gap")
    if any(first > end for first, end in stretches):
        refuse(place, "must each tell one prompt or more")
    starts = [scene.start for scene in scenes]
    if starts != sorted(set(starts)) or starts[0] != 0 or starts[-1] >= len(draft.chapter_text):
        refuse(place, "must begin one after the other in chapter_text, the first with it")


def _check_kept_receipts(chapter: Chapter, draft: DraftEntry, place: str) -> None:
    if draft.kept_receipts and not draft.is_edited:
        refuse(place, "must be empty unless the draft is_edited")
    numbers = [one.paragraph for one in draft.kept_receipts]
    if numbers != sorted(set(numbers)) or max(numbers, default=0) > len(draft.chapter_text):
        refuse(place, "must name paragraphs of chapter_text in order, each once")
    for at, one in enumerate(draft.kept_receipts):
        if one.prompts != sorted(set(one.prompts)) or not all(
            1 <= prompt <= chapter.prompt_index for prompt in one.prompts
        ):
            refuse(f"{place}[{at}].prompts", "must be numbers of prompts in order, each once")
        if bool(one.prompts) == (one.confidence == "invented"):
            refuse(f"{place}[{at}].confidence", "must be invented where there are no prompts")
