"""The shelf of the home page: the choice and the order of the stories, and the line of each."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from typing import Any, cast

from django.core.paginator import Page, Paginator
from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Left
from django.http import QueryDict
from django.urls import reverse
from django.utils.http import urlencode

from agents.prompting.cleaning.declining import is_refusal
from memory.models import NarrativeDraft
from memory.prose.drafts import chosen_drafts
from memory.shelf.finding_stories import COUNTED, count_groups, count_stories, find_stories
from memory.shelf.shelf_groups import Group, group_of
from memory.shelf.shelf_orders import Order
from memory.shelf.shelf_search import Search
from sessions.chapter.stories import BY_PLACE, COUNTED_FURTHER, Deletion, deletions, title_of
from sessions.language.words import count_words
from sessions.limits import SEARCH_CHAR_LIMIT
from sessions.models import SAID, Event, Session, Story

STORIES_A_PAGE = 20
# At most this many digits of the number of a page are read.
_DIGITS = 7
# A line of the shelf is taken from at most this many characters of the prose, or of the last words
# of the play.
_WORDS_READ = 300
# At most this many replies of a chapter are searched for one where no model declines.
_PASSED_OVER = 20

# The next step in a chapter of each group, as the name of its button.
_NEXT: Mapping[str, str] = {
    Group.SETTING_UP: "Set up",
    Group.IN_PLAY: "Continue",
    Group.ENDED: "Build prose",
    Group.TOLD: "Read",
}
# The names of the groups and of the orders. The group of all stories does not include stories that
# were put away.
_GROUP_NAMES: Mapping[str, str] = {
    "": "All",
    Group.SETTING_UP: "Setting up",
    Group.IN_PLAY: "In play",
    Group.ENDED: "Ended",
    Group.TOLD: "Told",
    Group.ARCHIVED: "Archived",
}
_ORDER_NAMES: Mapping[str, str] = {
    "": "last played",
    Order.TITLE: "title",
    Order.BEGUN: "begun",
    Order.LENGTH: "length",
}


@dataclass(frozen=True)
class Asked:
    """The choices in the address of the page. Unknown values count as left out."""

    words: str = ""
    group: str = ""
    order: str = ""

    @classmethod
    def read(cls, query: QueryDict) -> "Asked":
        group, order = query.get("state", ""), query.get("sort", "")
        return cls(
            words=query.get("q", "").strip()[:SEARCH_CHAR_LIMIT],
            group=group if group in _GROUP_NAMES else "",
            order=order if order in _ORDER_NAMES else "",
        )

    def address(self, **changes: str) -> str:
        """Return the query of the page with the same choices, except for the changes."""
        query = QueryDict(mutable=True)
        named = {"q": self.words, "state": self.group, "sort": self.order, **changes}
        query.update({name: value for name, value in named.items() if value})
        return f"?{query.urlencode()}"

    @property
    def pages_query(self) -> str:
        """The query of the other pages of this list, without the number of the page."""
        return self.address().removeprefix("?")


@dataclass(frozen=True)
class ChapterLine:
    """A chapter as the shelf shows it. `words` are the first line of its prose, or the last words
    of the play, or "". `word_count` is the length of its chosen draft."""

    chapter: Session
    group: str
    words: str
    word_count: int
    is_newest: bool
    has_draft: bool

    @property
    def next_address(self) -> str:
        """The address of the next step: the prose as a book, or else the tab on which it is."""
        name = "pages:read" if self.group == Group.TOLD else "pages:chapter"
        return reverse(name, args=[self.chapter.pk])

    @property
    def reads_too(self) -> bool:
        """Whether the prose can be read although the next step is another one."""
        return self.has_draft and self.group != Group.TOLD

    @property
    def state(self) -> str:
        return _GROUP_NAMES[self.group]

    @property
    def next_step(self) -> str:
        return _NEXT[self.group]


@dataclass(frozen=True)
class ShelfStory:
    story: Story
    title: str
    lines: Sequence[ChapterLine]

    @property
    def word_count(self) -> int:
        return sum(line.word_count for line in self.lines if line.chapter.is_chosen)

    @property
    def has_begun(self) -> bool:
        """Whether play has begun in the last chapter, so that another chapter can follow."""
        chosen = [line for line in self.lines if line.chapter.is_chosen]
        return bool(chosen) and chosen[-1].group != Group.SETTING_UP

    @property
    def is_called_as_its_chapter(self) -> bool:
        """Whether the story has a single chapter of the same title, so that its line need not say
        it again."""
        return len(self.lines) == 1 and self.lines[0].chapter.title == self.title

    @property
    def chapter_count(self) -> int:
        return sum(line.chapter.is_chosen for line in self.lines)


@dataclass(frozen=True)
class Undo:
    """A deletion that can be undone at `address`. The page that follows a deletion names one of the
    `keys` in its own address."""

    title: str
    keys: tuple[str, ...]
    address: str

    @classmethod
    def of(cls, deletion: Deletion) -> "Undo":
        chapter, story = deletion.chapters[0].pk, deletion.story.pk
        if len(deletion.chapters) > 1:
            address = reverse("pages:restore-deletion", args=[story, chapter])
            return cls(deletion.title, (str(story),), address)
        address = reverse("pages:restore", args=[chapter])
        return cls(deletion.title, (str(chapter), str(story)), address)


@dataclass(frozen=True)
class Undos:
    """The deletions that the home page lists, and the deletion that was just made, if there is one.
    `further` names the number of earlier deletions that are not listed. `is_earlier` says that the
    user asked for earlier deletions than the latest."""

    just_made: Undo | None
    listed: Sequence[Undo]
    further: str
    further_address: str
    is_earlier: bool

    @classmethod
    def read(cls, query: QueryDict) -> "Undos":
        before = _read_time(query.get("deleted-before", ""))
        found = deletions(before)
        undos = [Undo.of(one) for one in found.listed]
        just_made = next((one for one in undos if query.get("deleted") in one.keys), None)
        further = f"{COUNTED_FURTHER}+" if found.further > COUNTED_FURTHER else f"{found.further}"
        last_at = found.last_at.isoformat() if found.last_at else ""
        return cls(
            just_made=just_made,
            listed=[one for one in undos if one is not just_made],
            further=further if found.further else "",
            further_address=f"?{urlencode({'deleted-before': last_at})}#deleted",
            is_earlier=before is not None,
        )


def _read_time(text: str) -> datetime | None:
    """Return the time that the address names, or None if it names none."""
    try:
        time = datetime.fromisoformat(text)
        return time.astimezone(UTC) if time.tzinfo else None
    except (ValueError, OverflowError):
        return None


@dataclass(frozen=True)
class Choice:
    """A link that filters or sorts the shelf."""

    name: str
    address: str
    is_present: bool
    count: int | None = None

    @property
    def is_more(self) -> bool:
        """Whether there are more stories than are counted."""
        return (self.count or 0) > COUNTED

    @property
    def counted(self) -> int:
        return min(self.count or 0, COUNTED)


@dataclass(frozen=True)
class _Found:
    """The stories that were asked for. A paginator reads one page of them."""

    asked: Asked
    search: Search

    def __getitem__(self, places: slice) -> list[Story]:
        return find_stories(self.search, self.asked.group, self.asked.order, places=places)


class ShelfPages(Paginator):  # type: ignore[type-arg]  # Django's class takes no type argument
    """The pages of the stories. If there are very many stories, the pages are counted only up to
    the page after the shown one, so that no page counts all stories."""

    def __init__(self, asked: Asked, page: str | None, counts: Mapping[str, int]) -> None:
        self._search = Search(asked.words)
        self._found = _Found(asked, self._search)
        super().__init__(cast(Any, self._found), STORIES_A_PAGE)
        self._asked, self._counts = asked, counts
        self._page = int(page[:_DIGITS]) if page and page.isdecimal() else 1

    @cached_property
    def count(self) -> int:
        search, group = self._search, self._asked.group
        counted = count_stories(search, group) if search else self._counts[group]
        if counted <= COUNTED:
            return counted
        begun = max(self._page, 1) * STORIES_A_PAGE
        if begun < counted or self._found[begun : begun + 1]:
            return max(counted, begun + 1)
        # The page is the last one, or lies behind it.
        return count_stories(search, group, most=None)

    @property
    def is_more(self) -> bool:
        """Whether the number of pages is not known."""
        return self.count > COUNTED


@dataclass(frozen=True)
class Shelf:
    asked: Asked
    pages: Page[Story]
    stories: Sequence[ShelfStory]
    groups: Sequence[Choice]
    orders: Sequence[Choice]

    @property
    def has_stories(self) -> bool:
        """Whether there are any stories, even if the filter leaves them out."""
        return bool(self.stories) or any(one.count for one in self.groups)


def read_shelf(asked: Asked, page: str | None) -> Shelf:
    counts = count_groups()
    pages = ShelfPages(asked, page, counts).get_page(page)
    groups = [
        Choice(name, asked.address(state=group), group == asked.group, counts[group])
        for group, name in _GROUP_NAMES.items()
    ]
    orders = [
        Choice(name, asked.address(sort=order), order == asked.order)
        for order, name in _ORDER_NAMES.items()
    ]
    return Shelf(asked, pages, _on_the_shelf(pages.object_list), groups, orders)


def _on_the_shelf(stories: Iterable[Story]) -> list[ShelfStory]:
    by_key = {story.pk: story for story in stories}
    chapters = Session.objects.filter(story__in=by_key)
    in_order = chapters.order_by("story", *BY_PLACE)
    newest = (
        Session.objects.order_by("-last_played_at", "story").values_list("pk", flat=True).first()
    )
    drafts, said = _chosen_drafts(chapters), _last_said(chapters)
    shelf: dict[uuid.UUID, ShelfStory] = {}
    whole = in_order.select_related("origin").prefetch_related("members")
    for key, of_story in groupby(whole, lambda one: one.story_id):
        lines = []
        for chapter in of_story:
            draft = drafts.get(chapter.pk)
            lines.append(
                ChapterLine(
                    chapter=chapter,
                    group=group_of(chapter.state, is_told=draft is not None),
                    words=_first_line(said.get(chapter.pk, "") if draft is None else draft),
                    word_count=count_words(draft or ""),
                    is_newest=chapter.pk == newest,
                    has_draft=draft is not None,
                )
            )
        story = by_key[key]
        title = title_of(story, [line.chapter for line in lines])
        shelf[key] = ShelfStory(story, title, lines)
    return [shelf[key] for key in by_key if key in shelf]


def _chosen_drafts(chapters: QuerySet[Session]) -> dict[uuid.UUID, str]:
    """Return the text of the chosen draft of each chapter that has one."""
    texts = NarrativeDraft.objects.filter(pk__in=chosen_drafts(chapters).values())
    return dict(texts.values_list("session", "chapter_text"))


def _last_said(chapters: QuerySet[Session]) -> dict[uuid.UUID, str]:
    """Return the beginning of the last words of the play in each chapter. Words in which a model
    declines are passed over, even if the user has kept them."""
    said = Event.objects.filter(
        attempt__chosen_for__isnull=False, role=Event.Role.AGENT, kind=SAID
    ).order_by("-prompt_index", "-position")
    start = Left("text", _WORDS_READ)
    newest = Subquery(said.filter(session=OuterRef("pk")).values(start=start)[:1])
    last = {key: text or "" for key, text in chapters.order_by().values_list("pk", newest)}
    for key in [key for key, text in last.items() if is_refusal(text)]:
        before = said.filter(session=key).values_list(start, flat=True)[:_PASSED_OVER]
        last[key] = next((text for text in before if not is_refusal(text)), "")
    return last


def _first_line(text: str) -> str:
    """Return the first line that is neither a heading nor the words of a model that declines."""
    lines = (line.strip() for line in text[:_WORDS_READ].splitlines())
    told = (line for line in lines if line and not line.startswith("#"))
    return next((line for line in told if not is_refusal(line)), "")
