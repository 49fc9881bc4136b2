"""Keeps text from imitating the marks that say in a request who speaks.

In the transcript the Game Master's words begin with "2) ", and the words of Tom with "Tom: ". The
templates of chat models have marks of their own. A text that imitates a mark is changed by one
sign, and any other text is left as it is. A second pass over a changed text changes nothing more.
"""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from sessions.language.chat_marks import (
    CALL_TAGS,
    CALL_WORDS,
    RESERVED_TAGS,
    THOUGHT_TAGS,
    THOUGHT_WORDS,
    TURN_TAGS,
    TURN_WORDS,
)

# The first two lines have letters and signs that look like others. The third line has the
# characters that replace them, in the same order.
_LOOK_ALIKES = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"  # noqa: RUF001
    "♯\u2769\u02d0\u05c3\u2236\ua789\u02cd\u0332\u0333\u203f\u2040\u2054\u2581",
    "ABEKMHOPCTYXSIJaeopcyxsijABEZHIKMNOPTYXo#)::::_______",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]++")
# The Unicode categories whose characters `as_read` removes: marks on letters, format characters and
# unassigned code points.
_UNSEEN_KINDS = frozenset({"Mn", "Me", "Cf", "Cn"})
# Variation selectors and joiners. Unicode counts them as marks on letters, but they are never
# drawn.
_BLANK_MARKS = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Characters that Python counts as letters although they are blank or only modify the letter in
# front of them.
UNSEEN_LETTERS = "\u115f\u1160\u3164\uff9e\uff9f\uffa0"

# Signs that look like a colon or a closing parenthesis. `_BETWEEN` matches all characters that are
# neither such a sign nor a letter.
_SIGN = (
    r":)\u02d0\u05c3\u207e\u208e\u2236\u2474-\u2487\u2769\u2a74\ua789"
    r"\ufe13\ufe36\ufe55\ufe5a\uff09\uff1a"
)
_BETWEEN = rf"(?:[^\w{_SIGN}]|[_{UNSEEN_LETTERS}])*+"
# The Game Master's names in requests. A character with one of these names could pass for the Game
# Master.
_GAME_MASTER = ("the G M", "G M", "the Game Master", "Game Master")
_ROLES = (*_GAME_MASTER, "System", "User", "Assistant", "Human")
# The roles as which a model goes on after a reply, each with the words by which pages name it. No
# member of the cast speaks under such a name, unless it is the member's own name. The first roles
# are those of people who tell a story. Models write them in the language of the story too.
_NARRATOR = (
    *("Narrator", "The Narrator", "Storyteller", "Erzähler", "Narrateur", "Narrador", "Narratore"),
    *("Рассказчик", "旁白", "叙述者", "ナレーター", "내레이터", "الراوي"),
)
NO_MEMBERS: Mapping[str, str] = {
    **dict.fromkeys(_NARRATOR, "the narrator"),
    **dict.fromkeys(
        ("GM", "The GM", "G.M.", "Game Master", "The Game Master", "Gamemaster", "Dungeon Master"),
        "the Game Master",
    ),
    **dict.fromkeys(("Spielleiter", "Мастер игры", "游戏主持人"), "the Game Master"),
    "User": "the user",
    "Human": "the user",
    "Player": "the player",
    "Assistant": "the assistant",
    "System": "the system",
}

# After the word of a tag, there may be a value, as in "<function=go>" and "<invoke name='go'>".
_TAGS = (*TURN_TAGS, *THOUGHT_TAGS, *CALL_TAGS, *RESERVED_TAGS)
_WORDS = (*TURN_WORDS, *THOUGHT_WORDS, *CALL_WORDS)
_TAG_END = r"(?:=|\s*+/?>|\s++[\w-]++=)"
# A pattern for the beginning of marks such as <|im_start|>, <turn|> and <<SYS>>, and of tags with
# one of the words in `_TAGS`.
_ANGLED = re.compile(
    rf"<(?=[|\uff5c]|\w++[|\uff5c]>|</?SYS>|/?(?:\w++:)?(?:{'|'.join(_TAGS)}){_TAG_END})",
    re.IGNORECASE,
)
# A pattern for the beginning of marks such as [INST] and [|user|].
_SQUARE = re.compile(rf"\[(?:/?(?:{'|'.join(_WORDS)})(?=\])|(?=\|))")
_HEADING = re.compile(r"\s*#+\s*[^\W\d]")


def without_chat_marks(text: str) -> str:
    """Return the text with the marks of chat templates made ineffective.

    These marks begin a speaker's words, a thought or a tool call. A local server would obey them
    anywhere in a request.
    """
    if "[" in text:
        text = _SQUARE.sub(r"\g<0>\\", text)
    return _ANGLED.sub("&lt;", text) if "<" in text else text


def without_cues(text: str, names: Sequence[str] = ()) -> str:
    """Return the text with a backslash before each line that begins like the words of the Game
    Master or of a speaker in `names`."""
    lines = text.splitlines(keepends=True)
    is_cue = _cue_of(tuple(names))
    return "".join(f"\\{line}" if is_cue(line) else line for line in lines)


def is_mark(name: str) -> bool:
    """Return whether a character must not have this name, because the character's words would pass
    for the Game Master's or for a part of a request."""
    return holds_mark(f"{name}: ")


def holds_mark(line: str) -> bool:
    """Return whether the line begins like the Game Master's words or like a part of a request, or
    contains a mark of a chat template."""
    guarded = without_chat_marks(without_cues(line))
    return guarded != line or bool(_HEADING.match(as_read(line)))


def as_read(text: str) -> str:
    """Return the text as it looks to a reader: each look-alike is replaced by the character that it
    resembles, and invisible characters are removed.

    The computing time is proportional to the text's length.
    """
    return _NOT_ASCII.sub(lambda found: "".join(map(_reading, found[0])), text)


def name_as_read(name: str) -> str:
    """Return the name in a form without capitals and look-alikes. The beginnings of lines are
    compared with this form."""
    return as_read(name).casefold().strip()


def person_as_read(name: str) -> str:
    """Return a form of the name that is equal for two names that a reader would take for the same
    person.

    This form keeps accents, while `as_read` drops them. So Rene and René are two people.
    """
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKES)
    seen = "".join(one for one in plain if not _is_blank(one))
    return unicodedata.normalize("NFC", seen.casefold()).strip()


@lru_cache(maxsize=4_096)
def sign_as_read(sign: str) -> str:
    """Return one character of a name in the form of `person_as_read`, but with its marks apart. The
    result is "" for a character that can never be seen."""
    plain = unicodedata.normalize("NFKD", sign).translate(_LOOK_ALIKES)
    return "".join(one for one in plain if not _is_blank(one)).casefold()


# Characters are normalized one by one, because normalizing a long row of marks at once takes
# quadratic time.
@lru_cache(maxsize=4_096)
def _reading(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).translate(_LOOK_ALIKES)
    return "".join(one for one in plain if not _is_unseen(one))


def _is_blank(character: str) -> bool:
    """Return whether the character can never be seen, not even as a mark on the letter in front of
    it."""
    is_mark = unicodedata.category(character) in ("Mn", "Me")
    return bool(_BLANK_MARKS.match(character)) if is_mark else _is_unseen(character)


def _is_unseen(character: str) -> bool:
    return character in UNSEEN_LETTERS or unicodedata.category(character) in _UNSEEN_KINDS


@lru_cache(maxsize=256)
def _cue_of(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a function that takes a line, and returns whether the line begins like the words of
    one of these speakers.

    The beginning is recognised even if signs and spaces are put between its letters. The
    quantifiers are possessive, because the computing time has to be proportional to the text's
    length.
    """
    rest = r"(?:[^\w:\\]|_)*+"
    labels, signs, longest = [], [], 0
    for name in (*_ROLES, *names):
        read = name_as_read(name)
        if words := re.findall(r"[^\W_]+", read):
            # A role may have a number, as in "User 1:" and "GM (1):".
            number = rf"(?:{rest}\d++)?+" if name in _ROLES else ""
            labels.append(r"[\W_]*+".join(words) + number)
            longest = max(longest, sum(map(len, words)))
        elif read:
            # The pattern for a name without any letter, such as "???".
            signs.append(rf"\s*+{re.escape(read)}\s*+:")
    label = rf"(?:{'|'.join(labels)}){rest}:"
    beat = r"\d++(?:[^\w)\\]|_)*+\)"
    cue = re.compile("|".join([rf"(?:[^\w\\]|_)*+(?:{beat}|{label})", *signs]))
    # `hint` is a quick pattern that most lines do not match. Only the other lines are compared with
    # the slow pattern `cue`.
    letter = rf"[^\W_{UNSEEN_LETTERS}{_SIGN}]"
    read_first = rf"(?:{letter}{_BETWEEN}){{0,{longest}}}+(?:\d{_BETWEEN})*+"
    hint = re.compile(rf"{_BETWEEN}{read_first}[{_SIGN}]")
    return lambda line: bool(hint.match(line) and cue.match(as_read(line).casefold()))
