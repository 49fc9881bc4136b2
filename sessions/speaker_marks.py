"""Keeps text from imitating the marks by which a request tells who speaks.

In the transcript the Game Master's words begin with "2) ", and the words of Tom with "Tom: ". The
templates of chat models have marks of their own. Text that imitates a mark is changed by one sign,
and no other text is changed. A text that is changed once is not changed again.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

# The look-alikes, and the characters that replace them. The letters of other scripts and the signs
# in the first two lines look like the characters in the third line.
_LOOK_ALIKES = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"  # noqa: RUF001
    "♯\u2769\u02d0\u05c3\u2236\ua789\u02cd\u0332\u0333\u203f\u2040\u2054\u2581",
    "ABEKMHOPCTYXSIJaeopcyxsijABEZHIKMNOPTYXo#)::::_______",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]++")
# The Unicode categories of marks on letters, of format characters and of unassigned code points.
_UNSEEN_KINDS = frozenset({"Mn", "Me", "Cf", "Cn"})
# Variation selectors and joiners, which are marks that are never drawn.
_BLANK_MARKS = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Characters that Python counts as letters. They are blank, or only modify the letter in front of
# them.
UNSEEN_LETTERS = "\u115f\u1160\u3164\uff9e\uff9f\uffa0"

# Signs that look like a colon or a closing parenthesis. `_BETWEEN` matches all characters that are
# neither such a sign nor a letter.
_SIGN = (
    r":)\u02d0\u05c3\u207e\u208e\u2236\u2474-\u2487\u2769\u2a74\ua789"
    r"\ufe13\ufe36\ufe55\ufe5a\uff09\uff1a"
)
_BETWEEN = rf"(?:[^\w{_SIGN}]|[_{UNSEEN_LETTERS}])*+"
# The names of the Game Master. Other speakers with these names could pass for the Game Master.
_GAME_MASTER = ("the G M", "G M", "the Game Master", "Game Master")
_ROLES = (*_GAME_MASTER, "System", "User", "Assistant", "Human")

# The words in tags with angle brackets. The word may follow a slash or the name of a family of
# models, as in "<seed:think>". A value may follow the word, as in "<function=go>" and "<invoke
# name='go'>".
_TAGS = (
    *("s", "bos", "eos", "pad", "unk", "sop", "eop", r"(?:start|end)_of_\w++"),
    *("think", "thinking", "thought", "reasoning", "tools", "tool_calls?", "tool_response"),
    *("function", "function_calls?", "invoke", "parameter", "arg_key", "arg_value"),
    *(r"extra_id_\d++", r"(?:reserved|special)_\d++", r"unused\d++"),
)
# The words in marks with square brackets.
_WORDS = (
    *("INST", "SYSTEM_PROMPT", "MODEL_SETTINGS", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS"),
    *("TOOL_CONTENT", "ARGS", "CALL_ID", "THINK", "BOS", "EOS", "gMASK"),
)
_TAG_END = r"(?:=|\s*+/?>|\s++[\w-]++=)"
# The beginning of marks such as <|im_start|>, <turn|> and <<SYS>>, and of the tags with the words
# above.
_ANGLED = re.compile(
    rf"<(?=[|\uff5c]|\w++[|\uff5c]>|</?SYS>|/?(?:\w++:)?(?:{'|'.join(_TAGS)}){_TAG_END})",
    re.IGNORECASE,
)
# The beginning of marks such as [INST] and [|user|].
_SQUARE = re.compile(rf"\[(?:/?(?:{'|'.join(_WORDS)})(?=\])|(?=\|))")
_HEADING = re.compile(r"\s*#+\s*[^\W\d]")


def without_chat_marks(text: str) -> str:
    """Return the text with the marks of chat templates made ineffective.

    The marks are those for speakers, thoughts and tool calls. Local servers would obey them
    anywhere in a request.
    """
    if "[" in text:
        text = _SQUARE.sub(r"\g<0>\\", text)
    return _ANGLED.sub("&lt;", text) if "<" in text else text


def without_cues(text: str, names: Sequence[str] = ()) -> str:
    """Return the text with a backslash before some lines: those that begin as if the Game Master,
    or a speaker with one of these names, spoke."""
    lines = text.splitlines(keepends=True)
    is_cue = _cue_of(tuple(names))
    return "".join(f"\\{line}" if is_cue(line) else line for line in lines)


def is_mark(name: str) -> bool:
    """Return whether this name of a character is a mark.

    With such a name, the character's words would pass for the Game Master's or for a part of a
    request.
    """
    return holds_mark(f"{name}: ")


def holds_mark(line: str) -> bool:
    """Return whether the line begins like the Game Master's words or like a part of a request.

    Also returns True if the line contains a mark of a chat template.
    """
    guarded = without_chat_marks(without_cues(line))
    return guarded != line or bool(_HEADING.match(as_read(line)))


def as_read(text: str) -> str:
    """Return the text as a reader sees it: look-alikes are replaced, and invisible characters
    removed.

    The time is proportional to the text's length.
    """
    return _NOT_ASCII.sub(lambda found: "".join(map(_reading, found[0])), text)


def name_as_read(name: str) -> str:
    """Return a name in the form that is compared with the beginnings of lines."""
    return as_read(name).casefold().strip()


def person_as_read(name: str) -> str:
    """Return a form of a name. It is equal for two names that a reader takes for the same person.

    In `as_read`, marks on letters do not count. Here they do, so that Rene and René are two people.
    """
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKES)
    seen = "".join(one for one in plain if not _is_blank(one))
    return unicodedata.normalize("NFC", seen.casefold()).strip()


# Each character is normalized alone, because sorting a long row of marks takes quadratic time.
@lru_cache(maxsize=4_096)
def _reading(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).translate(_LOOK_ALIKES)
    return "".join(one for one in plain if not _is_unseen(one))


def _is_blank(character: str) -> bool:
    """Return whether the character is always invisible, even after a letter that it could
    modify."""
    is_mark = unicodedata.category(character) in ("Mn", "Me")
    return bool(_BLANK_MARKS.match(character)) if is_mark else _is_unseen(character)


def _is_unseen(character: str) -> bool:
    return character in UNSEEN_LETTERS or unicodedata.category(character) in _UNSEEN_KINDS


@lru_cache(maxsize=256)
def _cue_of(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Return a function that tells whether a line begins as if one of these speakers spoke.

    Between the parts of such a beginning the line may have any characters except letters and
    digits. The quantifiers are possessive, so that the time is proportional to the text's length.
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
    # This pattern is a quick check. Most lines fail it, so the slow pattern is seldom needed.
    letter = rf"[^\W_{UNSEEN_LETTERS}{_SIGN}]"
    read_first = rf"(?:{letter}{_BETWEEN}){{0,{longest}}}+(?:\d{_BETWEEN})*+"
    hint = re.compile(rf"{_BETWEEN}{read_first}[{_SIGN}]")
    return lambda line: bool(hint.match(line) and cue.match(as_read(line).casefold()))
