"""Reads and adds narrative drafts, and says which draft is chosen. Each build adds a draft, and no
draft is changed."""

import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.db import transaction
from django.db.models import BooleanField, ExpressionWrapper, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone

from memory.blocks.blocks import COUNTS
from memory.models import DraftChoice, NarrativeDraft
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.stories import chapters_of
from sessions.exceptions import UnknownChapter, WrongState
from sessions.models import Attempt, Session, Story

# The text between the texts of two scenes.
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
        """The texts of the scenes, without the blank lines between them."""
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
    as in some files."""
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


def chosen_draft(chapter: Session) -> NarrativeDraft | None:
    """Return the draft that stands for the chapter in its story: the one that the user chose, or
    else the newest one. Return None if the chapter has no draft."""
    return drafts_of(chapter).filter(pk__in=chosen_drafts([chapter]).values()).first()


def chosen_drafts(chapters: Sequence[Session] | QuerySet[Session]) -> dict[uuid.UUID, uuid.UUID]:
    """Return the key of the chosen draft of each chapter that has a draft, by the chapter's
    key."""
    drafts = NarrativeDraft.objects.filter(session__in=chapters).order_by("created_at", "pk")
    chosen = Coalesce("session__draft_choice__draft", "pk")
    return dict(drafts.annotate(chosen=chosen).values_list("session", "chosen"))


def find_choice(chapter: Session) -> DraftChoice | None:
    """Return the user's choice of a draft, or None as long as the newest draft counts."""
    return DraftChoice.objects.filter(session=chapter).first()


def shown_draft(drafts: Sequence[NarrativeDraft], choice: DraftChoice | None) -> int:
    """Return the number of the draft that Tab 3 shows first: the chosen draft, or the newest draft
    if it was added after the choice, so that the user sees it. `drafts` are all drafts of a
    chapter, oldest first. Return 0 if there is no draft."""
    if not drafts or choice is None or drafts[-1].created_at > choice.chosen_at:
        return len(drafts)
    return [draft.pk for draft in drafts].index(choice.draft_id) + 1


@transaction.atomic
def choose_draft(session_id: uuid.UUID, draft_id: uuid.UUID) -> NarrativeDraft:
    """Let this draft stand for the chapter in its story until another one is chosen. Raises
    UnknownChapter."""
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    _, draft = find_draft(chapter, draft_id)
    DraftChoice.objects.update_or_create(
        session=chapter, defaults={"draft": draft, "chosen_at": timezone.now()}
    )
    # The chapter's row is changed too, so that a reading of the whole chapter notices the choice
    # (see `read_at_one_moment`).
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())
    return draft


@transaction.atomic
def forget_choice(session_id: uuid.UUID) -> None:
    """Let the newest draft stand for the chapter in its story again. Raises UnknownChapter."""
    lock_chapter(session_id)
    DraftChoice.objects.filter(session=get_chapter(session_id)).delete()
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())


def told_chapters(story: Story) -> list[Session]:
    """Return the chosen chapters of the story that have a draft, in order."""
    chapters = [chapter for chapter in chapters_of(story) if chapter.is_chosen]
    chosen = chosen_drafts(chapters)
    return [chapter for chapter in chapters if chapter.pk in chosen]


def drafts_of_story(story: Story) -> list[NarrativeDraft]:
    """Return the chosen draft of each chosen chapter of the story, in order. A chapter without a
    draft is left out. Raises WrongState if there is no draft."""
    chapters = [chapter for chapter in chapters_of(story) if chapter.is_chosen]
    chosen = chosen_drafts(chapters)
    found = NarrativeDraft.objects.select_related("session").in_bulk(chosen.values())
    drafts = [found[chosen[one.pk]] for one in chapters if one.pk in chosen]
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
    """Return the number of the last prompt that the chosen draft tells, or 0 without a draft."""
    chosen = chosen_drafts([chapter]).values()
    draft = chapter.narrative_drafts.only("source_snapshot").filter(pk__in=chosen).first()
    return last_prompt_of(draft) if draft else 0


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
    origin_id: uuid.UUID | None = None,
) -> NarrativeDraft:
    """Store a draft that a job has written. If the job wrote a single scene of an earlier draft
    again, `origin_id` names this draft."""
    return NarrativeDraft.objects.create(
        session_id=session_id,
        job_id=job_id,
        origin_id=origin_id,
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
