"""The Now view, which shows the present state of memory. Each item has the prompts that told it.

An address names an item or a question by a digest of its text, because addresses are logged and the
log may have no text of a story.
"""

import hashlib
import uuid
from dataclasses import dataclass

from memory.blocks.same_names import key_of
from memory.canon.contradictions import Contradiction, read_contradiction
from memory.fold.folding import fold_chapter
from memory.fold.records import Fold, Prompts, Question
from memory.keeping import KeptRecent
from memory.telling.now_view import NowItem, NowSection, now_view
from sessions.models import Session
from sessions.roster import Character

_QUESTIONS = "questions"
_OLDEST_FIRST = ("canon", "timeline")
# At most this many items of a section are shown. A long chapter has thousands of items.
ITEMS_SHOWN = 25


@dataclass(frozen=True)
class ShownItem:
    """An item of the Now view. `correct_key` and `answer_key` are the keys of the pages where the
    item can be corrected or answered. A key is "" if there is no such page.

    `known_to` names the characters who know the item. It is "" if all characters know it.
    """

    text: str
    aside: str
    prompts: list[Prompts]
    known_to: str = ""
    correct_key: str = ""
    answer_key: str = ""


@dataclass(frozen=True)
class ShownSection:
    key: str
    title: str
    entries: list[ShownItem]
    # The number of items before the first shown item, and the number of items after the last shown
    # one. The page shows them on request.
    left_out_before: int = 0
    left_out_after: int = 0


@dataclass(frozen=True)
class NowPanel:
    """The sections of the Now view, and the two facts of the newest question."""

    sections: list[ShownSection]
    contradiction: Contradiction
    # The prompts that the old fact of the contradiction comes from.
    old_prompts: list[Prompts]

    @property
    def questions(self) -> list[ShownItem]:
        """The open questions of memory, newest first."""
        return next((one.entries for one in self.sections if one.key == _QUESTIONS), [])

    @property
    def newest_question(self) -> ShownItem | None:
        return self.questions[0] if self.questions else None

    @property
    def other_questions(self) -> int:
        asked = [one for one in self.sections if one.key == _QUESTIONS]
        return sum(len(one.entries) + one.left_out_after - 1 for one in asked)


@dataclass(frozen=True)
class _Kept:
    """A panel in the cache, with the fold and the roster that it was made from."""

    folded: Fold
    roster: list[Character]
    panel: NowPanel


# The name of a character, and the items that the character knows. An item is a pair of the
# section's key and the key of the item's text.
_Reader = tuple[str, set[tuple[str, str]]]

_kept: KeptRecent[uuid.UUID, _Kept] = KeptRecent(32)


def read_now(chapter: Session, *, shows_all: bool = False) -> NowPanel:
    """Return the Now view with all items, or with the latest ITEMS_SHOWN items of each section.

    The view with the latest items is cached until memory or a name changes. In a long chapter it
    takes longer to make than the rest of the page.
    """
    folded, roster = fold_chapter(chapter), chapter.characters
    if shows_all:
        return _make_panel(chapter, folded, None)
    kept = _kept.get(chapter.pk)
    if kept is None or kept.folded is not folded or kept.roster != roster:
        kept = _Kept(folded, roster, _make_panel(chapter, folded, ITEMS_SHOWN))
        _kept.set(chapter.pk, kept)
    return kept.panel


def _make_panel(chapter: Session, folded: Fold, limit: int | None) -> NowPanel:
    sections = now_view(folded, chapter.characters)
    readers = _read_readers(chapter)
    asked = next((one.items[0].text for one in sections if one.key == _QUESTIONS), "")
    told = read_contradiction(asked, sections)
    return NowPanel(
        [_shown_section(section, limit, readers) for section in sections],
        told,
        prompts_of_facts(sections).get(told.old, []),
    )


def _read_readers(chapter: Session) -> list[_Reader]:
    """Return the items that each character knows. If all characters know the same, return an empty
    list."""
    roster = chapter.characters if chapter.differs_by_reader else []
    views = [now_view(fold_chapter(chapter, readers=[one.slot]), roster) for one in roster]
    return [
        (one.name, {(section.key, key_of(item.text)) for section in view for item in section.items})
        for one, view in zip(roster, views, strict=True)
    ]


def text_key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_item(folded: Fold, roster: list[Character], key: str) -> NowItem | None:
    """Return the item with this key. Returns None if memory no longer has it, or if no ruling can
    withdraw it."""
    items = (item for section in now_view(folded, roster) for item in section.items)
    return next((item for item in items if item.replaces and text_key(item.replaces) == key), None)


def find_question(folded: Fold, key: str) -> Question | None:
    """Return the question with this key, even if it is settled already."""
    return next((one for one in folded.questions.values() if text_key(one.text) == key), None)


def open_question_count(folded: Fold) -> int:
    return sum(not one.is_settled for one in folded.questions.values())


def prompts_of_facts(sections: list[NowSection]) -> dict[str, list[Prompts]]:
    """For each fact that a ruling can withdraw, return the prompts that it comes from. The keys are
    the texts of the facts."""
    items = (item for section in reversed(sections) for item in section.items)
    return {item.replaces: item.sources for item in items if item.replaces}


def _shown_section(section: NowSection, limit: int | None, readers: list[_Reader]) -> ShownSection:
    # In canon and the timeline, the latest item comes last. In other sections it comes first.
    first = max(len(section.items) - limit, 0) if limit and section.key in _OLDEST_FIRST else 0
    kept = section.items[first : first + limit] if limit else section.items
    shown = [_shown_item(item, section.key, readers) for item in kept]
    after = len(section.items) - first - len(shown)
    return ShownSection(section.key, section.title, shown, first, after)


def _shown_item(item: NowItem, section: str, readers: list[_Reader]) -> ShownItem:
    asks, names = section == _QUESTIONS, [name for name, _ in readers]
    knowing = [name for name, known in readers if asks or (section, key_of(item.text)) in known]
    return ShownItem(
        item.text,
        item.aside,
        item.sources,
        known_to="" if knowing == names else ", ".join(knowing) or "nobody of the cast",
        correct_key=text_key(item.replaces) if item.replaces else "",
        answer_key=text_key(item.text) if asks else "",
    )
