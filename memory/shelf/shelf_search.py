"""Finds the chapters that have words in their titles or texts.

A rare word is looked up once, and then all its chapters are known. A common word is not looked up
in all texts, because users mostly want the first page, and the count ends early. Instead, the
chapters that were played last are searched for the word, one after the other, up to a bound. A page
that is not full by then needs all chapters that have the word.
"""

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q, QuerySet

from memory.models import NarrativeDraft
from sessions.language.spelling import plain_spelling
from sessions.models import Event, Session, Story, Tab1Inputs

# At most this many words of a search count.
MOST_WORDS = 8
# A word is rare if it stands in fewer than this number of texts of each kind.
PROBED = 2_000
# At most this many chapters are searched for common words. The second number is the limit of
# prompts of these chapters together.
WALKED, WALKED_PROMPTS = 500, 5_000


@dataclass(frozen=True)
class _Probe:
    """The keys of the chapters that have a word, hidden chapters included. If the word is common,
    these are only some of the keys."""

    word: str
    keys: frozenset[uuid.UUID]
    is_rare: bool


class Search:
    """A search for chapters that have all of some words. Each word may stand in another place: in
    the titles of story and chapter, in Tab 1, in the events, or in the prose of one chapter.

    A word is found within longer words too, and in any spelling with the same plain spelling.
    """

    def __init__(self, words: str) -> None:
        self._words = list(dict.fromkeys(plain_spelling(words).split()[:MOST_WORDS]))

    def __bool__(self) -> bool:
        return bool(self._words)

    @cached_property
    def _probes(self) -> Sequence[_Probe]:
        return [_probe(word) for word in self._words]

    @cached_property
    def is_rare(self) -> bool:
        """Whether one of the words is rare, so that all chapters that may be found are known."""
        return any(one.is_rare for one in self._probes)

    def in_story(self, story: str) -> Q:
        """Return the condition that a chapter of a story has all words. `story` names the key of
        the story in the query."""
        if self.is_rare:
            keys = frozenset.intersection(*(one.keys for one in self._probes if one.is_rare))
            common = [one.word for one in self._probes if not one.is_rare]
            return Q(**{f"{story}__in": _stories_among(keys, common)})
        # Without an index of the texts, the database looks through one story after the other until
        # it has found enough. With an index, it need not look through the stories without the
        # words.
        if connection.vendor == "sqlite":
            return self.looked_through(story)
        chapters = Session.objects.order_by()
        for word in self._words:
            chapters = chapters.filter(pk__in=_chapters_with(word))
        return Q(**{f"{story}__in": chapters.values("story")})

    def looked_through(self, story: str) -> Q:
        """Return the same condition in a form that makes the database look through each story."""
        chapters = Session.objects.order_by().filter(story=OuterRef(story))
        return Q(Exists(chapters.filter(*map(_has, self._words))))

    def some_stories(self) -> "Iterator[QuerySet[Session, Any]]":
        """Yield the keys of some stories one of whose chapters has all words."""
        for probe in self._probes:
            others = [word for word in self._words if word != probe.word]
            yield _stories_among(probe.keys, others)


def _stories_among(keys: frozenset[uuid.UUID], words: Sequence[str]) -> "QuerySet[Session, Any]":
    """Return the keys of the stories of these chapters, if they have the words."""
    chapters = Session.objects.order_by().filter(*map(_has, words), pk__in=keys)
    return chapters.values("story")


def walked_since() -> datetime | None:
    """Return the time after which a chapter must have been played to be searched for common
    words."""
    chapters = Session.objects.order_by("-last_played_at")
    played = chapters.values_list("last_played_at", "prompt_index")[:WALKED]
    since, asked = None, 0
    for last_played_at, prompts in played:
        since, asked = last_played_at, asked + prompts
        if asked > WALKED_PROMPTS:
            break
    return since


def _probe(word: str) -> _Probe:
    keys: set[uuid.UUID] = set()
    for texts, chapter in _places_of(word):
        found = list(texts.values_list(chapter, flat=True)[:PROBED])
        keys.update(found)
        if len(found) == PROBED:
            return _Probe(word, frozenset(keys), is_rare=False)
    return _Probe(word, frozenset(keys), is_rare=True)


def _chapters_with(word: str) -> QuerySet[Any, Any]:
    """Return the keys of the chapters that have the word, some keys several times."""
    return _union(texts.values(chapter) for texts, chapter in _places_of(word))


def _has(word: str) -> Exists:
    """Return the condition that a chapter has the word, in a form that makes the database look
    through the texts of this chapter."""
    own = (
        texts.filter(**{chapter: OuterRef("pk")}).values(chapter)
        for texts, chapter in _places_of(word)
    )
    return Exists(_union(own))


def _union(places: Iterable[QuerySet[Any, Any]]) -> QuerySet[Any, Any]:
    first, *others = places
    return first.union(*others, all=True)


def _places_of(word: str) -> Sequence[tuple[QuerySet[Any, Any], str]]:
    """Return, for each place where a word can stand, the rows that have the word, with the name of
    the field that has the chapter's key.

    Each place is searched by itself, because PostgreSQL has an index of the texts for each place. A
    condition that joins the places by OR would use no index.
    """
    said = Event.objects.filter(text__spells=word, attempt__chosen_for__isnull=False)
    told = NarrativeDraft.objects.filter(chapter_text__spells=word)
    set_up = Tab1Inputs.objects.filter(Q(world_text__spells=word) | Q(chapter_text__spells=word))
    # Hidden chapters are found, too, because a condition that leaves them out would make SQLite
    # read the chapters one by one, by another index.
    titled = Session.everything.filter(title__spells=word)
    stories = Story.objects.filter(title__spells=word)
    in_story = Session.everything.filter(story__in=stories.values("pk"))
    return [
        (titled.order_by(), "pk"),
        (in_story.order_by(), "pk"),
        (said.order_by(), "session"),
        (told.order_by(), "session"),
        (set_up.order_by(), "session"),
    ]
