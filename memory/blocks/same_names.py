"""Decides whether two texts name the same thing. Case, spacing and ordinary punctuation are
ignored.

Signs with a meaning, such as a minus sign, a decimal point or a percent sign, are not ignored. So
two facts that differ only in such a sign are two facts.
"""

import re
import unicodedata
from functools import lru_cache

# The ranges of code points with the punctuation of living scripts. Only these ranges are searched
# when the module is imported, because a search of all code points would take long.
_BLOCKS = (range(0x3100), range(0xFE10, 0xFF66))
_MEANINGFUL = "%#@&/\\'-.,:"
_DASHES = {
    code: "-"
    for block in _BLOCKS
    for code in block
    if unicodedata.category(chr(code)) == "Pd" or code == 0x2212
}
_UNSEEN = dict.fromkeys((0xAD, *range(0x200B, 0x2010), 0x2060, 0xFEFF), None)
_APOSTROPHES = dict.fromkeys((0x2018, 0x2019, 0x02BC), "'")
_ONE_SPELLING: dict[int, str | None] = {**_DASHES, **_UNSEEN, **_APOSTROPHES}
_ORDINARY = "".join(
    chr(code)
    for block in _BLOCKS
    for code in block
    if unicodedata.category(chr(code)).startswith("P") and chr(code) not in _MEANINGFUL
)
_LETTER = r"[^\W\d_]"
_IDLE = re.compile(
    rf"[{re.escape(_ORDINARY)}`\u00b4]"
    rf"|(?<!{_LETTER})'|'(?!{_LETTER})"  # an apostrophe that is not between letters
    rf"|(?<={_LETTER})[-.]|[-.](?!\d)"  # a minus or point that does not begin or divide a number
    r"|(?<!\d)[,:]|[,:](?!\d)"  # a comma or colon that is not between digits
)

_LISTED = re.compile(r"\s*(?:[,;&/+]|\band\b|<?->|\bvs\b\.?)\s*", re.IGNORECASE)
_SAYS_NOTHING = frozenset(
    {
        "",
        "n/a",
        "nil",
        "no change",
        "no changes",
        "none",
        "not specified",
        "nothing",
        "null",
        "same",
        "same as before",
        "unchanged",
        "unknown",
        "unspecified",
    }
)
_EVERYONE = frozenset(
    {
        "all",
        "all characters",
        "everybody",
        "everyone",
        "group",
        "party",
        "the group",
        "the party",
        "the whole party",
    }
)
EVERYONE = "everyone"

_CLOSED = r"(?:resolved|solved|closed|answered|settled|finished|completed|concluded|abandoned)"
_CLOSED_BEFORE = re.compile(
    rf"\W*{_CLOSED}\s*[])}}:.\-\u2013\u2014]+\s*(?P<thread>.+)", re.IGNORECASE
)
_CLOSED_BEHIND = re.compile(
    rf"(?P<thread>.+?)\s*[\[({{:\-\u2013\u2014]+\s*{_CLOSED}\W*", re.IGNORECASE
)
_CLOSING = re.compile(rf"(?:{_CLOSED}|done|over|ended|no longer open)\b")

_SCENES_PLACE = re.compile(
    r"(?:(?:current|scene|the scene's) )*(?:location|scene|where|whereabouts)"
)
_ONES_PLACE = (
    re.compile(r"(?:location|position|whereabouts)(?: of)? (?P<who>.+)"),
    re.compile(r"(?P<who>.+?)(?:'s)? (?:current )?(?:location|position|whereabouts)"),
)


@lru_cache(maxsize=16_384)
def key_of(text: str) -> str:
    """Return a key that is equal for two texts that name the same thing.

    The key is "" only for an empty text.
    """
    folded = unicodedata.normalize("NFC", text.casefold()).translate(_ONE_SPELLING)
    # A text that has only punctuation is its own key. Without the punctuation, the key would be
    # empty.
    return " ".join(_IDLE.sub(" ", folded).split()) or " ".join(text.casefold().split())


@lru_cache(maxsize=16_384)
def plain_key(name: str) -> str:
    """Return a key that is equal for two spellings of a name, whatever their accents."""
    letters = unicodedata.normalize("NFD", key_of(name))
    return "".join(one for one in letters if not unicodedata.combining(one))


def says_nothing(text: str) -> bool:
    """Return whether the text is only a filler without content, such as "none" or "unchanged"."""
    return key_of(text) in _SAYS_NOTHING or not any(character.isalnum() for character in text)


def person_key(name: str) -> str:
    key = key_of(name)
    return EVERYONE if key in _EVERYONE else key


def split_names(text: str) -> list[str]:
    return [name for name in _LISTED.split(text) if name]


def mentions(text_key: str, named_key: str) -> bool:
    """Return whether a text equals a named fact or contains the fact word for word. Both arguments
    are keys.

    If the fact is a single word, the text must be this word. Otherwise many texts would contain the
    fact by chance.
    """
    if " " not in named_key:
        return text_key == named_key
    return f" {named_key} " in f" {text_key} "


def closed_thread(text: str) -> str:
    """Return the thread that this text closes, or "" if it closes none.

    The text "Resolved: who rang the bell?" closes the thread "who rang the bell?".
    """
    match = _CLOSED_BEFORE.fullmatch(text) or _CLOSED_BEHIND.fullmatch(text)
    return match["thread"].strip() if match else ""


def closed_by(state_key: str) -> list[str]:
    """Return the keys of the threads that a state can close. The state closes these threads when
    its value becomes "resolved", for example."""
    return list(dict.fromkeys([state_key, state_key.removeprefix("thread ")]))


def is_closing(text: str) -> bool:
    """Return whether this new value of a state closes threads, as the value "resolved" does."""
    return bool(_CLOSING.match(key_of(text)))


def is_scene_place(state_key: str) -> bool:
    return bool(_SCENES_PLACE.fullmatch(state_key))


def placed_person(state_key: str) -> str:
    """Return the person whose place the state with this key tells, as the person's key. Return ""
    for any other state key.

    For the state key "mara's location", the result is the key of Mara.
    """
    for pattern in _ONES_PLACE:
        if match := pattern.fullmatch(state_key):
            return person_key(match["who"])
    return ""
