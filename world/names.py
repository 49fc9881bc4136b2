"""Compares names of places and people, and makes the canonical name of a new place."""

import re

_ARTICLES = frozenset({"a", "an", "the"})
_PREPOSITIONS = frozenset(
    {
        *("about", "above", "across", "after", "against", "along", "among", "around", "at"),
        *("before", "behind", "below", "beneath", "beside", "between", "beyond", "by", "down"),
        *("for", "from", "in", "inside", "into", "near", "of", "off", "on", "onto", "out"),
        *("outside", "over", "past", "through", "to", "toward", "towards", "under", "up"),
        *("upon", "with", "within"),
    }
)
_WORD = re.compile(r"[^\W_]+(?:['\N{RIGHT SINGLE QUOTATION MARK}][^\W_]+)*")
# The most words in the canonical name of a new place.
_MOST_WORDS = 4
_LONGEST_NAME = 60


def normalized(name: str) -> str:
    """Return the name in the form in which names are compared: without case, articles, spaces and
    punctuation."""
    words = _WORD.findall(name.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    told = [word for word in words if word not in _ARTICLES]
    return " ".join(told or words)


def canonical_name(description: str) -> str:
    """Return a name for a new place, made of its description without a model: without articles and
    prepositions, in title case, and of at most four words."""
    words = _WORD.findall(description)
    told = [one for one in words if one.casefold() not in _ARTICLES | _PREPOSITIONS] or words
    return " ".join(word[:1].upper() + word[1:] for word in told[:_MOST_WORDS])[:_LONGEST_NAME]


def is_named_in(text: str, name: str) -> bool:
    """Return whether the text has this name as whole words, in the name's own case."""
    if not name.strip():
        return False
    return re.search(rf"(?<!\w){re.escape(name.strip())}(?!\w)", text) is not None
