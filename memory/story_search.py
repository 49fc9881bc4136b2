"""Finds stories by words in their titles and texts."""

import uuid

from django.db.models import Exists, OuterRef, Q, QuerySet

from memory.models import NarrativeDraft
from sessions.models import Event, Session

# The most words of a search that count.
MOST_WORDS = 8


def stories_with(words: str) -> "QuerySet[Session, uuid.UUID]":
    """Return the keys of the stories one of whose chapters has all of the words, wherever they
    stand: in the titles of story and chapter, in Tab 1, in what was said, or in its prose.

    A word is found within longer words too, and capital letters count as small ones.
    """
    chapters = Session.objects.order_by()
    for word in words.split()[:MOST_WORDS]:
        chapters = chapters.filter(_has(word))
    return chapters.values_list("story", flat=True)


def _has(word: str) -> Q:
    """Return the condition that the chapter has the word."""
    said = Event.objects.filter(_contains("text", word), session=OuterRef("pk"))
    told = NarrativeDraft.objects.filter(_contains("chapter_text", word), session=OuterRef("pk"))
    in_setup = Q()
    for field in ("title", "story__title", "tab1__world_text", "tab1__chapter_text"):
        in_setup |= _contains(field, word)
    is_said = Q(Exists(said.filter(attempt__chosen_for__isnull=False)))
    return in_setup | is_said | Q(Exists(told))


def _contains(field: str, word: str) -> Q:
    """Return the condition that the field contains the word.

    SQLite knows only the capital letters of English, so that the word is also looked for as it is
    written within and at the beginning of a sentence, and in capital letters.
    """
    found = Q()
    spellings = {word} if word.isascii() else {word, word.lower(), word.capitalize(), word.upper()}
    for spelt in sorted(spellings):
        found |= Q(**{f"{field}__icontains": spelt})
    return found
