"""Filters for refusals, whose messages may repeat their titles, so that a page says each thing only
once."""

from django import template

from sessions.exceptions import ChapterError
from sessions.language.sentences import split_sentences
from sessions.language.words import whole_words

register = template.Library()

# Words without a meaning of their own, which are ignored when a title is compared with a message.
_SMALL = {"a", "an", "and", "are", "at", "be", "been", "here", "in", "is", "it", "of", "or", "the"}
_SMALL |= {"that", "there", "this", "to", "was"}


@register.filter
def repeats_title(error: ChapterError) -> bool:
    """Return whether the first sentence of the message says all that the title says."""
    first, _ = _split(str(error))
    return _words(error.title) <= _words(first)


@register.filter
def beyond_title(error: ChapterError) -> str:
    """Return the message for a place below the title: without a first sentence that says no more
    than the title. A message of one sentence is kept whole."""
    first, rest = _split(str(error))
    return rest if rest and _words(first) <= _words(error.title) else str(error)


def _split(message: str) -> tuple[str, str]:
    """Return the first sentence of the message, and the rest."""
    first, *rest = split_sentences(message) or [""]
    return first, "".join(rest)


def _words(text: str) -> set[str]:
    return set(whole_words(text)) - _SMALL
