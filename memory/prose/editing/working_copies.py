"""Working copies: the user edits a draft, and keeps the result as another draft.

A working copy is saved while the user types. Keeping it adds a draft and removes the working copy
in one short transaction; no draft is changed.
"""

import uuid
from collections.abc import Sequence
from dataclasses import replace

from django.db import transaction
from django.utils import timezone

from memory.models import NarrativeDraft, WorkingCopy
from memory.prose.drafts import (
    Telling,
    ToldScene,
    choose_draft,
    chosen_drafts,
    find_draft,
    stored_scenes,
    tell,
    telling_of,
)
from memory.prose.editing.aligning import Pair, align
from memory.prose.editing.lengths import check_length, check_paragraphs
from memory.prose.receipts.draft_receipts import read_receipts
from memory.prose.receipts.kept import keep_matches
from memory.prose.receipts.paragraphs import Paragraph, split_paragraphs
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.exceptions import ChapterError, InvalidInput, WrongState
from sessions.language.text import clean_text
from sessions.limits import DRAFT_CHAR_LIMIT, MAX_TARGET_WORDS
from sessions.models import Session

_LABEL = "The text of the draft"


class UnknownWorkingCopy(ChapterError):
    status = 404
    title = "No such working copy"


def find_working_copy(draft: NarrativeDraft) -> WorkingCopy | None:
    return WorkingCopy.objects.filter(draft=draft).first()


def get_working_copy(session_id: uuid.UUID, draft_id: uuid.UUID) -> WorkingCopy:
    """Return the working copy of the draft. Raises UnknownChapter and UnknownWorkingCopy."""
    _, draft = find_draft(get_chapter(session_id), draft_id)
    copy = find_working_copy(draft)
    if copy is None:
        raise UnknownWorkingCopy("This draft has no working copy. Saving one begins it.")
    return copy


def text_to_edit(draft: NarrativeDraft) -> str:
    """Return the text that an editor of the draft begins with: the text of the working copy, or
    else of the draft. Raises TooLong if the draft is too long to be edited."""
    copy = find_working_copy(draft)
    if copy is None:
        check_length(draft)
    return draft.chapter_text if copy is None else copy.text


@transaction.atomic
def save_working_copy(session_id: uuid.UUID, draft_id: uuid.UUID, text: str) -> WorkingCopy:
    """Save the text as the working copy of the draft. If two windows save, the later text is kept.

    Raises UnknownChapter, InvalidInput and TooLong.
    """
    text = clean_text(text, limit=DRAFT_CHAR_LIMIT, label=_LABEL)
    check_paragraphs(text, _LABEL, "Nothing was saved; join some of them.")
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    _, draft = find_draft(chapter, draft_id)
    check_length(draft)
    copy, _ = WorkingCopy.objects.update_or_create(
        draft=draft, defaults={"session": chapter, "text": text, "saved_at": timezone.now()}
    )
    return copy


@transaction.atomic
def throw_away(session_id: uuid.UUID, draft_id: uuid.UUID) -> bool:
    """Remove the working copy of the draft, and return whether there was one. Raises
    UnknownChapter."""
    lock_chapter(session_id)
    _, draft = find_draft(get_chapter(session_id), draft_id)
    removed, _ = WorkingCopy.objects.filter(draft=draft).delete()
    return bool(removed)


def keep_working_copy(session_id: uuid.UUID, draft_id: uuid.UUID) -> NarrativeDraft:
    """Store the working copy of the draft as another draft, and remove the working copy.

    If the draft was the chosen one, the new draft becomes the chosen one. If the same text of the
    same draft was kept before, no second draft is stored. Raises UnknownChapter, InvalidInput, and
    WrongState if there is nothing to keep.
    """
    chapter = get_chapter(session_id)
    _, draft = find_draft(chapter, draft_id)
    copy = find_working_copy(draft)
    if copy is None:
        raise WrongState("This draft has no working copy, so there is nothing to keep.")
    if not copy.text.strip():
        raise InvalidInput(
            "The working copy is empty. Nothing was kept; write something, or throw it away."
        )
    # This work takes a moment, so it is done before the rows are locked.
    edited = _edit(chapter, draft, copy.text)
    if edited.chapter_text == draft.chapter_text:
        raise WrongState(
            "The working copy says the same as the draft. Nothing was kept; change it, or throw it "
            "away."
        )
    return _store(chapter, draft, copy, edited)


@transaction.atomic
def _store(
    chapter: Session, draft: NarrativeDraft, copy: WorkingCopy, edited: NarrativeDraft
) -> NarrativeDraft:
    lock_chapter(chapter.pk)
    unchanged = WorkingCopy.objects.filter(draft=draft, session=chapter, text=copy.text)
    if not unchanged.delete()[0]:
        raise WrongState(
            "Another window has changed the working copy meanwhile. Nothing was kept; look at it, "
            "and keep it then."
        )
    of_draft = chapter.narrative_drafts.filter(origin=draft, is_edited=True)
    kept = of_draft.filter(chapter_text=edited.chapter_text).first()
    was_chosen = chosen_drafts([chapter]).get(chapter.pk) == draft.pk
    if kept is None:
        edited.created_at = timezone.now()
        edited.save()
        kept = edited
    if was_chosen:
        choose_draft(chapter.pk, kept.pk)
    # The chapter's row is changed too, so that a reading of the whole chapter notices the new draft
    # (see `read_at_one_moment`).
    Session.objects.filter(pk=chapter.pk).update(updated_at=timezone.now())
    return kept


def _edit(chapter: Session, draft: NarrativeDraft, text: str) -> NarrativeDraft:
    """Return the draft with another text, as a new row that is not stored yet. Its scenes begin
    where the scenes of the draft begin."""
    olds = split_paragraphs(draft.chapter_text)
    telling = divide(telling_of(draft), olds, text)
    news = split_paragraphs(telling.text)
    pairs = _align(olds, news)
    matches = [one.match for one in read_receipts(chapter, draft).receipts]
    return NarrativeDraft(
        session=chapter,
        origin=draft,
        is_edited=True,
        attempt=draft.attempt,
        narrative_agent_definition_text=draft.narrative_agent_definition_text,
        target_words=draft.target_words,
        source_snapshot=draft.source_snapshot,
        chapter_text=telling.text,
        scenes=stored_scenes(telling.scenes),
        kept_receipts=keep_matches(
            [(one.text, match) for one, match in zip(olds, matches, strict=True)],
            [one.text for one in news],
            {
                pair.new: pair.old
                for pair in pairs
                if pair.is_same and pair.new is not None and pair.old is not None
            },
        ),
    )


def divide(telling: Telling, olds: Sequence[Paragraph], text: str) -> Telling:
    """Divide an edited text into the scenes of the telling that it was made from. If no paragraph
    of a scene is left, the scene is joined with the scene before, or with the next one if it was
    the first.

    `olds` are the paragraphs of the telling's text.
    """
    if not telling.scenes:
        return Telling(text.strip(), ())
    news = split_paragraphs(text)
    pairs = _align(olds, news)
    firsts = [_first_of(scene, olds, news, pairs) for scene in telling.scenes]
    firsts[0] = 0
    scenes: list[ToldScene] = []
    texts: list[str] = []
    waiting: ToldScene | None = None
    for scene, first, end in zip(telling.scenes, firsts, [*firsts[1:], len(news)], strict=True):
        joined = _join(waiting, scene) if waiting else scene
        waiting = None
        if first < end:
            scenes.append(joined)
            stop = news[end].start if end < len(news) else len(text)
            texts.append(text[news[first].start : stop].rstrip())
        elif scenes:
            scenes[-1] = _join(scenes[-1], joined)
        else:
            waiting = joined
    return tell(scenes, texts)


def _first_of(
    scene: ToldScene, olds: Sequence[Paragraph], news: Sequence[Paragraph], pairs: Sequence[Pair]
) -> int:
    """Return the place, in the newer text, of the first paragraph of the scene."""
    first = next((at for at, one in enumerate(olds) if one.start >= scene.start), len(olds))
    at = next((at for at, pair in enumerate(pairs) if pair.old == first), len(pairs))
    following = (pair.new for pair in pairs[at:] if pair.new is not None)
    return next(following, len(news))


def _join(scene: ToldScene, following: ToldScene) -> ToldScene:
    words = min(scene.target_words + following.target_words, MAX_TARGET_WORDS)
    return replace(scene, last=following.last, target_words=words)


def _align(olds: Sequence[Paragraph], news: Sequence[Paragraph]) -> list[Pair]:
    return align([one.text for one in olds], [one.text for one in news])
