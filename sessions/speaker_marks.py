"""The marks by which a text tells who speaks, and how others' words are kept from passing for one.

The transcript leads what the Game Master wrote with "2) " and what Tom said with "Tom: "; the
templates of chat models have marks of their own. Only what would pass for one is changed, by one
sign, and nothing a second time.
"""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

# Letters of other scripts, and signs, that look like the ones below them.
_LOOK_ALIKES = str.maketrans(
    "АВЕКМНОРСТУХЅІЈаеорсухѕіјΑΒΕΖΗΙΚΜΝΟΡΤΥΧο"  # noqa: RUF001
    "♯\u2769\u02d0\u05c3\u2236\ua789\u02cd\u0332\u0333\u203f\u2040\u2054\u2581",
    "ABEKMHOPCTYXSIJaeopcyxsijABEZHIKMNOPTYXo#)::::_______",
)
_NOT_ASCII = re.compile(r"[^\x00-\x7f]++")
# Marks on letters and the format characters; a code point that is none is not seen either.
_UNSEEN_KINDS = frozenset({"Mn", "Me", "Cf", "Cn"})
# Marks that are never drawn: those that choose a letter's variant, and joiners.
_BLANK_MARKS = re.compile(
    "[\u034f\u17b4\u17b5\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)
# Letters, as Python counts them, that are blank or only a mark on the one before.
UNSEEN_LETTERS = "\u115f\u1160\u3164\uff9e\uff9f\uffa0"

# What reads as a colon or a closing parenthesis, and all that is neither one nor a letter.
_SIGN = (
    r":)\u02d0\u05c3\u207e\u208e\u2236\u2474-\u2487\u2769\u2a74\ua789"
    r"\ufe13\ufe36\ufe55\ufe5a\uff09\uff1a"
)
_BETWEEN = rf"(?:[^\w{_SIGN}]|[_{UNSEEN_LETTERS}])*+"
# Who else could be taken to speak with the Game Master's word.
_GAME_MASTER = ("the G M", "G M", "the Game Master", "Game Master")
_ROLES = (*_GAME_MASTER, "System", "User", "Assistant", "Human")

# In angle brackets, also with a slash before it or a family's name, as in "<seed:think>", and with
# something behind it, as in "<function=go>" and "<invoke name='go'>".
_TAGS = (
    *("s", "bos", "eos", "pad", "unk", "sop", "eop", r"(?:start|end)_of_\w++"),
    *("think", "thinking", "thought", "reasoning", "tools", "tool_calls?", "tool_response"),
    *("function", "function_calls?", "invoke", "parameter", "arg_key", "arg_value"),
    *(r"extra_id_\d++", r"(?:reserved|special)_\d++", r"unused\d++"),
)
# In square brackets.
_WORDS = (
    *("INST", "SYSTEM_PROMPT", "MODEL_SETTINGS", "AVAILABLE_TOOLS", "TOOL_CALLS", "TOOL_RESULTS"),
    *("TOOL_CONTENT", "ARGS", "CALL_ID", "THINK", "BOS", "EOS", "gMASK"),
)
_TAG_END = r"(?:=|\s*+/?>|\s++[\w-]++=)"
# <|im_start|>, <turn|>, <<SYS>> and the tags.
_ANGLED = re.compile(
    rf"<(?=[|\uff5c]|\w++[|\uff5c]>|</?SYS>|/?(?:\w++:)?(?:{'|'.join(_TAGS)}){_TAG_END})",
    re.IGNORECASE,
)
# [INST], and [|user|].
_SQUARE = re.compile(rf"\[(?:/?(?:{'|'.join(_WORDS)})(?=\])|(?=\|))")
_HEADING = re.compile(r"\s*#+\s*[^\W\d]")


def without_chat_marks(text: str) -> str:
    """The text without a mark by which chat templates tell speakers, and a model its thoughts and
    its calls, apart: local servers heed those wherever they stand."""
    if "[" in text:
        text = _SQUARE.sub(r"\g<0>\\", text)
    return _ANGLED.sub("&lt;", text) if "<" in text else text


def without_cues(text: str, names: Sequence[str] = ()) -> str:
    """The text with a backslash before each line that begins as the Game Master's words do, or
    those of somebody of these names."""
    lines = text.splitlines(keepends=True)
    is_cue = _cue_of(tuple(names))
    return "".join(f"\\{line}" if is_cue(line) else line for line in lines)


def is_mark(name: str) -> bool:
    """Whether the words of a character of this name would pass for the Game Master's, or for a part
    of a prompt."""
    return holds_mark(f"{name}: ")


def holds_mark(line: str) -> bool:
    """Whether the line begins as the Game Master's words or a part of a prompt do, or has a mark of
    chat templates in it."""
    guarded = without_chat_marks(without_cues(line))
    return guarded != line or bool(_HEADING.match(as_read(line)))


def as_read(text: str) -> str:
    """The text as a reader takes it: look-alikes are what they look like, what is not seen is not
    there. Takes no longer than its length."""
    return _NOT_ASCII.sub(lambda found: "".join(map(_reading, found[0])), text)


def name_as_read(name: str) -> str:
    """The name as a line that begins with it is looked for, however it is written."""
    return as_read(name).casefold().strip()


def person_as_read(name: str) -> str:
    """Two names that are the same here are one person to a reader.

    Unlike in `as_read` marks on letters count: Rene is not René.
    """
    plain = unicodedata.normalize("NFKD", name).translate(_LOOK_ALIKES)
    seen = "".join(one for one in plain if not _is_blank(one))
    return unicodedata.normalize("NFC", seen.casefold()).strip()


# Each character for itself: to bring a run of marks into order takes the square of its length.
@lru_cache(maxsize=4_096)
def _reading(character: str) -> str:
    plain = unicodedata.normalize("NFKD", character).translate(_LOOK_ALIKES)
    return "".join(one for one in plain if not _is_unseen(one))


def _is_blank(character: str) -> bool:
    """Whether it is not seen even as a mark on the letter before."""
    is_mark = unicodedata.category(character) in ("Mn", "Me")
    return bool(_BLANK_MARKS.match(character)) if is_mark else _is_unseen(character)


def _is_unseen(character: str) -> bool:
    return character in UNSEEN_LETTERS or unicodedata.category(character) in _UNSEEN_KINDS


@lru_cache(maxsize=256)
def _cue_of(names: tuple[str, ...]) -> Callable[[str], bool]:
    """Whether a line begins as somebody's words do.

    Whatever stands between the parts of such a beginning is no letter and no digit. Possessive, so
    that no text takes longer than its length.
    """
    rest = r"(?:[^\w:\\]|_)*+"
    labels, signs, longest = [], [], 0
    for name in (*_ROLES, *names):
        read = name_as_read(name)
        if words := re.findall(r"[^\W_]+", read):
            # Roles come with numbers too, as in "User 1:" and "GM (1):".
            number = rf"(?:{rest}\d++)?+" if name in _ROLES else ""
            labels.append(r"[\W_]*+".join(words) + number)
            longest = max(longest, sum(map(len, words)))
        elif read:
            # Without a letter, such as "???".
            signs.append(rf"\s*+{re.escape(read)}\s*+:")
    label = rf"(?:{'|'.join(labels)}){rest}:"
    beat = r"\d++(?:[^\w)\\]|_)*+\)"
    cue = re.compile("|".join([rf"(?:[^\w\\]|_)*+(?:{beat}|{label})", *signs]))
    # Most lines have no sign so early: to read all of them would take much longer.
    letter = rf"[^\W_{UNSEEN_LETTERS}{_SIGN}]"
    read_first = rf"(?:{letter}{_BETWEEN}){{0,{longest}}}+(?:\d{_BETWEEN})*+"
    hint = re.compile(rf"{_BETWEEN}{read_first}[{_SIGN}]")
    return lambda line: bool(hint.match(line) and cue.match(as_read(line).casefold()))
