"""Reads and adds narrative drafts. Each build adds a draft, and no draft is changed."""

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, QuerySet

from memory.blocks import COUNTS
from memory.models import NarrativeDraft
from sessions.exceptions import UnknownChapter, WrongState
from sessions.models import Attempt, Session, Story
from sessions.stories import chapters_of

# What stands between the texts of two scenes.
_BETWEEN = "\n\n"


@dataclass(frozen=True)
class ToldScene:
    """A scene of a draft: the prompts `first` to `last`, told in about `target_words` words, whose
    text begins at the character `start` of the draft. `job_id` names the job that wrote it. It is
    None in an imported draft."""

    first: int
    last: int
    target_words: int
    start: int
    job_id: str | None = None


@dataclass(frozen=True)
class Telling:
    """The text of a draft, with its scenes."""

    text: str
    scenes: tuple[ToldScene, ...]

    @property
    def texts(self) -> list[str]:
        """The texts of the scenes, without what stands between them."""
        ends = [scene.start for scene in self.scenes[1:]] + [len(self.text) + len(_BETWEEN)]
        return [
            self.text[scene.start : end - len(_BETWEEN)]
            for scene, end in zip(self.scenes, ends, strict=True)
        ]


def tell(scenes: Sequence[ToldScene], texts: Sequence[str]) -> Telling:
    """Join the texts of the scenes, and say of each scene where its text begins."""
    placed, start = [], 0
    for scene, text in zip(scenes, texts, strict=True):
        placed.append(replace(scene, start=start))
        start += len(text) + len(_BETWEEN)
    return Telling(_BETWEEN.join(texts), tuple(placed))


def telling_of(draft: NarrativeDraft) -> Telling:
    """Return the text of the draft with its scenes. There are no scenes if they were not recorded,
    as in drafts of older programs."""
    return Telling(draft.chapter_text, tuple(ToldScene(**one) for one in draft.scenes))


def drafts_of(chapter: Session) -> QuerySet[NarrativeDraft]:
    """Return the chapter's drafts, oldest first, each with the field `is_current`.

    A draft is current while the last attempt that it tells is chosen. A draft whose last attempt
    was not recorded counts as current.
    """
    drafts: QuerySet[NarrativeDraft] = chapter.narrative_drafts.annotate(
        is_current=ExpressionWrapper(COUNTS, output_field=BooleanField())
    )
    return drafts.order_by("created_at")


def drafts_of_story(story: Story) -> list[NarrativeDraft]:
    """Return the newest draft of each chapter that the story goes by, in order. A chapter without a
    draft is left out. Raises WrongState if there is no draft."""
    chapters = [chapter for chapter in chapters_of(story) if chapter.is_chosen]
    newest = [drafts_of(chapter).select_related("session").last() for chapter in chapters]
    drafts = [draft for draft in newest if draft is not None]
    if not drafts:
        raise WrongState("No chapter of this story has prose yet. Build it on Tab 3 first.")
    return drafts


def find_draft(chapter: Session, draft_id: uuid.UUID) -> tuple[int, NarrativeDraft]:
    """Return the draft and its number, the first draft having the number 1. Raises
    UnknownChapter."""
    keys = list(chapter.narrative_drafts.order_by("created_at").values_list("pk", flat=True))
    if draft_id not in keys:
        raise UnknownChapter("There is no such draft of this chapter.")
    return keys.index(draft_id) + 1, drafts_of(chapter).get(pk=draft_id)


def check_scene(draft: NarrativeDraft, number: int) -> None:
    """Raise UnknownChapter if the draft's scenes are recorded and none of them has this number. The
    first scene has the number 1."""
    if draft.scenes and not 1 <= number <= len(draft.scenes):
        raise UnknownChapter("There is no such scene in this draft.")


def last_prompt_of(draft: NarrativeDraft) -> int:
    """Return the number of the last prompt that the draft tells, or 0 if it is not known."""
    return int(draft.source_snapshot.get("max_prompt_index_used", 0))


def told_until(chapter: Session) -> int:
    """Return the number of the last prompt that the newest draft tells, or 0 without a draft."""
    newest = chapter.narrative_drafts.order_by("-created_at").only("source_snapshot").first()
    return last_prompt_of(newest) if newest else 0


def write_draft(
    session_id: uuid.UUID,
    *,
    job_id: uuid.UUID,
    attempt: Attempt,
    definition_text: str,
    target_words: int,
    max_prompt_index: int,
    block_ids: list[str],
    telling: Telling,
) -> NarrativeDraft:
    return NarrativeDraft.objects.create(
        session_id=session_id,
        job_id=job_id,
        attempt=attempt,
        narrative_agent_definition_text=definition_text,
        target_words=target_words,
        source_snapshot={
            "max_prompt_index_used": max_prompt_index,
            "memory_block_ids_used": block_ids,
        },
        chapter_text=telling.text,
        scenes=stored_scenes(telling.scenes),
    )


def stored_scenes(scenes: Sequence[ToldScene]) -> list[dict[str, Any]]:
    return [asdict(scene) for scene in scenes]
