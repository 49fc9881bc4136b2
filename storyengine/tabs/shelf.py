"""The stories of the home page: which ones are shown, in which order, and what each line says."""

import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from django.core.paginator import Page, Paginator
from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Left, Lower
from django.http import QueryDict
from django.urls import reverse

from memory.models import NarrativeDraft
from memory.story_search import stories_with
from sessions.models import SAID, Event, Session, Story
from sessions.states import State
from sessions.stories import Deletion

STORIES_A_PAGE = 20
# The most characters of a search.
SEARCH_CHAR_LIMIT = 200
# The characters of the prose, or of what was said last, from which a line of the shelf is taken.
_WORDS_READ = 300

# The groups of chapters by which the shelf can be filtered, with their names. Where all stories are
# shown, those that were put away are not among them.
SETTING_UP, IN_PLAY, ENDED, TOLD, ARCHIVED = "setting-up", "in-play", "ended", "told", "archived"
GROUPS: Mapping[str, str] = {
    "": "All",
    SETTING_UP: "Setting up",
    IN_PLAY: "In play",
    ENDED: "Ended",
    TOLD: "Told",
    ARCHIVED: "Archived",
}
_GROUP_OF_STATE: Mapping[str, str] = {
    State.DRAFT_TAB1: SETTING_UP,
    State.LOCKING: SETTING_UP,
    State.RESETTING: SETTING_UP,
    State.ACTIVE: IN_PLAY,
    State.SUMMARIZING: IN_PLAY,
    State.ENDED: ENDED,
    State.NARRATING: ENDED,
}
# What comes next in a chapter of each group, as the name of its button.
_NEXT: Mapping[str, str] = {
    SETTING_UP: "Set up",
    IN_PLAY: "Continue",
    ENDED: "Build prose",
    TOLD: "Read",
}
# The orders of stories, with their names and the fields that sort them.
ORDERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "": ("last played", ("-last_played", "pk")),
    "title": ("title", ("sort_title", "pk")),
    "begun": ("begun", ("-created_at", "pk")),
    "length": ("length", ("-prompts", "pk")),
}
_SHOWN = Q(chapters__deleted_at=None) & ~Q(chapters__state=State.IMPORTING)


@dataclass(frozen=True)
class Asked:
    """What the address of the page asks for. Unknown values count as left out."""

    words: str = ""
    group: str = ""
    order: str = ""

    @classmethod
    def read(cls, query: QueryDict) -> "Asked":
        group, order = query.get("state", ""), query.get("sort", "")
        return cls(
            words=query.get("q", "").strip()[:SEARCH_CHAR_LIMIT],
            group=group if group in GROUPS else "",
            order=order if order in ORDERS else "",
        )

    def address(self, **changes: str) -> str:
        """Return the query of the page that asks for the same but for the changes."""
        query = QueryDict(mutable=True)
        named = {"q": self.words, "state": self.group, "sort": self.order, **changes}
        query.update({name: value for name, value in named.items() if value})
        return f"?{query.urlencode()}"

    @property
    def pages_query(self) -> str:
        """The query of another page of the same, but for the number of the page."""
        return self.address().removeprefix("?")


@dataclass(frozen=True)
class ChapterLine:
    """A chapter as the shelf shows it. `words` are the first line of its prose, or what was said
    last, or "". `word_count` is the length of its newest draft."""

    chapter: Session
    group: str
    words: str
    word_count: int
    is_newest: bool

    @property
    def state(self) -> str:
        return GROUPS[self.group]

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
            return cls(deletion.title, (str(story),), reverse("pages:restore-story", args=[story]))
        address = reverse("pages:restore", args=[chapter])
        return cls(deletion.title, (str(chapter), str(story)), address)


@dataclass(frozen=True)
class Choice:
    """A link that filters or sorts the shelf."""

    name: str
    address: str
    is_present: bool
    count: int | None = None


@dataclass(frozen=True)
class Shelf:
    asked: Asked
    pages: Page[Story]
    stories: Sequence[ShelfStory]
    groups: Sequence[Choice]
    orders: Sequence[Choice]

    @property
    def has_stories(self) -> bool:
        """Whether there are any stories, also ones that the filter leaves out."""
        return bool(self.stories) or any(one.count for one in self.groups)


def read_shelf(asked: Asked, page: str | None) -> Shelf:
    counts = _counts()
    pages = Paginator(_stories(asked), STORIES_A_PAGE).get_page(page)
    groups = [
        Choice(name, asked.address(state=group), group == asked.group, counts[group])
        for group, name in GROUPS.items()
    ]
    orders = [
        Choice(name, asked.address(sort=order), order == asked.order)
        for order, (name, _) in ORDERS.items()
    ]
    return Shelf(asked, pages, _on_the_shelf(pages.object_list), groups, orders)


def _stories(asked: Asked) -> QuerySet[Story]:
    stories = Story.objects.annotate(
        last_played=Max("chapters__last_played_at", filter=_SHOWN),
        prompts=Sum("chapters__prompt_index", filter=_SHOWN & Q(chapters__is_chosen=True)),
        shown=Count("chapters", filter=_SHOWN),
        sort_title=Lower(Min("chapters__title", filter=_SHOWN)),
    ).filter(shown__gt=0, archived_at__isnull=asked.group != ARCHIVED)
    if asked.group and asked.group != ARCHIVED:
        stories = stories.filter(Exists(_in_group(asked.group)))
    if asked.words:
        stories = stories.filter(pk__in=stories_with(asked.words))
    return stories.order_by(*ORDERS[asked.order][1])


def _in_group(group: str) -> QuerySet[Session]:
    """Return the chapters of a story that are in this group."""
    states = [ENDED] if group == TOLD else [group]
    chapters = Session.objects.filter(
        story=OuterRef("pk"),
        state__in=[state for state, one in _GROUP_OF_STATE.items() if one in states],
    )
    if group in (ENDED, TOLD):
        return chapters.filter(_has_draft() if group == TOLD else ~_has_draft())
    return chapters


def _has_draft() -> Exists:
    return Exists(NarrativeDraft.objects.filter(session=OuterRef("pk")))


def _counts() -> Counter[str]:
    """Return how many stories each group has. A story whose chapters are in several groups counts
    in each of them."""
    chapters = Session.objects.annotate(is_told=_has_draft()).order_by()
    rows = chapters.values_list("story", "state", "is_told", "story__archived_at").distinct()
    found: set[tuple[str, uuid.UUID]] = set()
    for story, state, is_told, archived_at in rows:
        if archived_at is not None:
            found.add((ARCHIVED, story))
            continue
        found |= {("", story), (_group_of(state, is_told=is_told), story)}
    return Counter(group for group, _ in found)


def _group_of(state: str, *, is_told: bool) -> str:
    group = _GROUP_OF_STATE[state]
    return TOLD if group == ENDED and is_told else group


def _on_the_shelf(stories: Iterable[Story]) -> list[ShelfStory]:
    by_key = {story.pk: story for story in stories}
    chapters = Session.objects.filter(story__in=by_key)
    in_order = chapters.order_by("story", "place", "-is_chosen", "created_at", "pk")
    newest = Session.objects.order_by("-last_played_at", "pk").values_list("pk", flat=True).first()
    drafts, said = _newest_drafts(chapters), _last_said(chapters)
    shelf: dict[uuid.UUID, ShelfStory] = {}
    for key, of_story in groupby(in_order.prefetch_related("members"), lambda one: one.story_id):
        lines = []
        for chapter in of_story:
            draft = drafts.get(chapter.pk)
            lines.append(
                ChapterLine(
                    chapter=chapter,
                    group=_group_of(chapter.state, is_told=draft is not None),
                    words=_first_line(said.get(chapter.pk) or "" if draft is None else draft),
                    word_count=len(draft.split()) if draft else 0,
                    is_newest=chapter.pk == newest,
                )
            )
        story = by_key[key]
        shelf[key] = ShelfStory(story, story.title or lines[0].chapter.title, lines)
    return [shelf[key] for key in by_key if key in shelf]


def _newest_drafts(chapters: QuerySet[Session]) -> dict[uuid.UUID, str]:
    """Return the text of the newest draft of each chapter that has one."""
    drafts = NarrativeDraft.objects.filter(session__in=chapters).order_by("created_at", "pk")
    newest = {session: draft for session, draft in drafts.values_list("session", "pk")}
    texts = NarrativeDraft.objects.filter(pk__in=newest.values())
    return dict(texts.values_list("session", "chapter_text"))


def _last_said(chapters: QuerySet[Session]) -> dict[uuid.UUID, str | None]:
    """Return the beginning of what was said last in each chapter."""
    said = Event.objects.filter(
        session=OuterRef("pk"),
        attempt__chosen_for__isnull=False,
        role=Event.Role.AGENT,
        kind=SAID,
    ).order_by("-prompt_index", "-position")
    start = Subquery(said.values(start=Left("text", _WORDS_READ))[:1])
    return dict(chapters.order_by().values_list("pk", start))


def _first_line(text: str) -> str:
    """Return the first line that is not a heading."""
    lines = (line.strip() for line in text[:_WORDS_READ].splitlines())
    return next((line for line in lines if line and not line.startswith("#")), "")
