"""Compares names of places and people, and makes the canonical name of a new place."""

import unicodedata
from functools import lru_cache

from sessions.language.spelling import plain_spelling
from sessions.limits import AGENT_NAME_CHAR_LIMIT

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
_APOSTROPHES = "'\N{RIGHT SINGLE QUOTATION MARK}"
# The canonical name of a new place has at most this many words.
_MOST_WORDS = 4


# The result is cached, because a search in a large world compares each of its names.
@lru_cache(maxsize=16_384)
def normalized(name: str) -> str:
    """Return the name in the form for comparing names: without case, articles, spaces and
    punctuation."""
    words = _words(name.casefold().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    told = [word for word in words if word not in _ARTICLES]
    return " ".join(told or words)


@lru_cache(maxsize=16_384)
def plain(name: str) -> str:
    """Return the name as `normalized` does, and without the marks of letters, such as Rene for
    René."""
    return plain_spelling(normalized(name))


def parts_of(name: str) -> frozenset[str]:
    """Return those words of a name that a text may use alone for the person, in the form for
    comparing names. The words after "of" are not among them, because the Widow of Osk is not
    Osk."""
    words = normalized(name).split()
    before = words[: words.index("of")] if "of" in words else words
    return frozenset(before or words)


def is_description(name: str) -> bool:
    """Return whether this text describes a person and does not name one, such as "the smith" or
    "smith": it begins with an article, or no word in it begins with a large letter."""
    words = _words(name)
    return bool(words) and (
        words[0].casefold() in _ARTICLES or all(one[:1].islower() for one in words)
    )


def canonical_name(description: str) -> str:
    """Return a name for a new place, made of its description without a model: without articles and
    prepositions, in title case, and of at most four words."""
    words = _words(description)
    told = [one for one in words if one.casefold() not in _ARTICLES | _PREPOSITIONS] or words
    return " ".join(word[:1].upper() + word[1:] for word in told[:_MOST_WORDS])[
        :AGENT_NAME_CHAR_LIMIT
    ]


def _words(text: str) -> list[str]:
    """Return the words of a text. The marks on a letter belong to its word, because many scripts
    write their vowels as marks."""
    plain = unicodedata.normalize("NFC", text)
    told = (one if one.isalnum() or one in _APOSTROPHES or _is_mark(one) else " " for one in plain)
    words = (one.strip(_APOSTROPHES) for one in "".join(told).split())
    return [one for one in words if any(sign.isalnum() for sign in one)]


def _is_mark(sign: str) -> bool:
    return bool(sign) and unicodedata.category(sign).startswith("M")
