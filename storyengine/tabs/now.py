"""The Now view: what memory comes to at present, each item with the prompts that it came from.

Items and questions are named in addresses by a digest of their text: no text of a story ends
up in an address, and so in a log.
"""

import hashlib
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from memory.contradictions import Contradiction, read_contradiction
from memory.fold.folding import fold_chapter
from memory.fold.records import Fold, Prompts, Question
from memory.keeping import KeptRecent
from memory.telling.now_view import NowItem, NowSection, now_view
from sessions.models import Session
from sessions.roster import Character

_QUESTIONS = "questions"
_OLDEST_FIRST = ("canon", "timeline")
# Of a section: a long chapter knows thousands of things.
ITEMS_SHOWN = 25


@dataclass(frozen=True)
class ShownItem:
    """`correct_key` is empty for what cannot be corrected, `answer_key` for what asks nothing."""

    text: str
    aside: str
    prompts: list[Prompts]
    correct_key: str = ""
    answer_key: str = ""


@dataclass(frozen=True)
class ShownSection:
    key: str
    title: str
    entries: list[ShownItem]
    # How many more stand before and after those, which are read only when they are asked for.
    left_out_before: int = 0
    left_out_after: int = 0


@dataclass(frozen=True)
class NowPanel:
    """`contradiction` is what the newest question is about."""

    sections: list[ShownSection]
    contradiction: Contradiction

    @property
    def questions(self) -> list[ShownItem]:
        """What memory asks and nobody has answered, the newest first."""
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
    """A panel, and what it was made from: the same for as long as memory is."""

    folded: Fold
    roster: list[Character]
    panel: NowPanel


_kept: KeptRecent[uuid.UUID, _Kept] = KeptRecent(32)


def read_now(chapter: Session, *, shows_all: bool = False) -> NowPanel:
    """Of each section the latest ITEMS_SHOWN, or all.

    The former is kept until memory or a name changes: of a long chapter, making it takes longer
    than all else on the page.
    """
    folded, roster = fold_chapter(chapter), chapter.characters
    if shows_all:
        return _make_panel(folded, roster, None)
    kept = _kept.get(chapter.pk)
    if kept is None or kept.folded is not folded or kept.roster != roster:
        kept = _Kept(folded, roster, _make_panel(folded, roster, ITEMS_SHOWN))
        _kept.set(chapter.pk, kept)
    return kept.panel


def _make_panel(folded: Fold, roster: list[Character], limit: int | None) -> NowPanel:
    sections = now_view(folded, roster)
    asked = next((one.items[0].text for one in sections if one.key == _QUESTIONS), "")
    return NowPanel(
        [_shown_section(section, limit) for section in sections],
        read_contradiction(asked, sections),
    )


def text_key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def find_item(folded: Fold, roster: list[Character], key: str) -> NowItem | None:
    """The item that a correction is asked for, if memory still says it."""
    items = (item for section in now_view(folded, roster) for item in section.items)
    return next((item for item in items if item.replaces and text_key(item.replaces) == key), None)


def find_question(folded: Fold, key: str) -> Question | None:
    """Also one that is settled."""
    return next((one for one in folded.questions.values() if text_key(one.text) == key), None)


def open_question_count(folded: Fold) -> int:
    return sum(not one.is_settled for one in folded.questions.values())


def said_in(first: Prompts, latest: Prompts) -> list[Prompts]:
    """The prompts that an item came from, named once where they are the same."""
    return list(dict.fromkeys([first, latest]))


def _shown_section(section: NowSection, limit: int | None) -> ShownSection:
    asks = section.key == _QUESTIONS
    # Canon and the timeline end with the latest, the others begin with it.
    first = max(len(section.items) - limit, 0) if limit and section.key in _OLDEST_FIRST else 0
    kept = section.items[first : first + limit] if limit else section.items
    shown = list(_shown_items(kept, asks=asks))
    after = len(section.items) - first - len(shown)
    return ShownSection(section.key, section.title, shown, first, after)


def _shown_items(items: Iterable[NowItem], *, asks: bool) -> Iterable[ShownItem]:
    for item in items:
        yield ShownItem(
            item.text,
            item.aside,
            said_in(item.first, item.latest),
            correct_key=text_key(item.replaces) if item.replaces else "",
            answer_key=text_key(item.text) if asks else "",
        )
