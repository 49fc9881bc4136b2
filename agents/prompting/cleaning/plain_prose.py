"""Removes marks from prose that a model wrote, and shortens prose."""

import re

from sessions.language.sentences import has_no_full_stops, sentence_ends
from sessions.language.words import count_words, words_of

_LEFT_OUT = " [...] "
_HEADING = re.compile(r"\A\s*## [A-Z_]+\n+(?=\S)")
# Patterns for the marks that a model may write: a number before a paragraph, signs before a
# heading, and bold marks around a heading.
_NUMBER = re.compile(r"\A[ \t]*+\d{1,3}[.)][ \t]++")
_SIGN = re.compile(r"\A#{1,6}[ \t]++")
_BOLD = ("**", "__")
_BLANKS = " \t"
# The quantifiers are possessive, so that the time is linear in the length of the line.
_SCENE_BREAK = re.compile(r"[ \t]*+(?:[*_-][ \t]*+){3,}+")
_LONGEST_HEADING = 80
_SPACE = re.compile(r"\s")
# The beginning of JSON, perhaps in a block of code. No prose begins in this way.
_JSON = re.compile(r'\s*+(?:```\w*+\s*+)?(?:\{\s*+"|\[\s*+\{)')


def why_no_prose(text: str) -> str:
    """Return why this answer of the narrator is no prose, or "" if it may be prose."""
    if _JSON.match(text):
        return "the answer is JSON, not prose"
    return "" if count_words(text) else "the answer has no words"


def end_at_sentence(text: str) -> str:
    """Return the text without its last sentence, if an output limit has cut this sentence.

    A cut sentence is kept if it is more than half of the text.
    """
    ends = sentence_ends(text)
    has_end = bool(ends) and ends[-1] >= len(text) / 2
    return text[: ends[-1]].rstrip() if has_end else text.rstrip()


def as_prose(text: str) -> str:
    """Return the text without headings, numbers of paragraphs and bold marks.

    Small models write these although their instructions forbid it. A line with marks that is not a
    heading loses only its marks. Scene breaks and single emphasis are kept. The result may be
    empty.
    """
    lines = [_as_prose(line) for line in text.split("\n")]
    kept = "\n".join(line for line in lines if line is not None)
    return re.sub(r"\n{3,}", "\n\n", kept).strip("\n")


def _as_prose(line: str) -> str | None:
    """Return the line without its marks, or None if it is a heading."""
    if _SCENE_BREAK.fullmatch(line):
        return line
    line = _NUMBER.sub("", line)
    wrapped = _wrapped(line)
    if wrapped is not None:
        line = _NUMBER.sub("", wrapped)
        is_sentence = bool(sentence_ends(line)) or has_no_full_stops(line)
        if len(line) <= _LONGEST_HEADING and not is_sentence:
            return None
    return line.replace("**", "")


def _wrapped(line: str) -> str | None:
    """Return the text inside the marks of a heading, or None if the marks enclose only a part.

    The marks are removed in several steps. A single pattern would try every way to divide a row of
    blanks among its parts, and would take far too long for a long row.
    """
    line = line.lstrip(_BLANKS)
    inside = line.rstrip(_BLANKS).rstrip("#").rstrip(_BLANKS)
    if sign := _SIGN.match(line):
        return inside[sign.end() :]
    inside = inside.removesuffix(":").rstrip(_BLANKS)
    is_bold = len(inside) > 4 and inside.startswith(_BOLD) and inside.endswith(_BOLD)
    return inside[2:-2] if is_bold else None


def without_heading(text: str) -> str:
    """Return the text without a heading of the request, because a small model may begin its reply
    with such a heading."""
    return _HEADING.sub("", text, count=1)


def last_words(text: str, count: int) -> str:
    """Return the end of the text: as few last paragraphs as possible that have at least `count`
    words together."""
    paragraphs: list[str] = []
    words = 0
    for paragraph in reversed(text.split("\n\n")):
        paragraphs.append(paragraph)
        words += count_words(paragraph)
        if words >= count:
            break
    return "\n\n".join(reversed(paragraphs))


def last_sentences(text: str, limit: int) -> str:
    """Return the end of the text, with at most `limit` characters. If possible, the end begins at
    the start of a sentence."""
    if len(text) <= limit:
        return text
    end = text[-limit:]
    space = _SPACE.search(end)
    for start in (*sentence_ends(end)[:1], *([space.end()] if space else [])):
        if start <= limit / 2:
            return end[start:].lstrip()
    return end


def without_middle(text: str, head: int = 420, tail: int = 180) -> str:
    """Return the beginning and the end of a long text. A short text is returned unchanged."""
    if len(text) <= head + tail + len(_LEFT_OUT):
        return text
    return text[:head] + _LEFT_OUT + text[-tail:]


def repeats(more: str, text: str) -> bool:
    """Return whether `text` contains more than half of all sequences of five words in `more`, or
    all of `more` if this is shorter."""
    runs = _runs(more)
    if not runs:
        words = _plain(more)
        return not words or f" {words} " in f" {_plain(text)} "
    return len(runs & _runs(text)) > len(runs) / 2


def _plain(text: str) -> str:
    return " ".join(words_of(text))


def _runs(text: str, length: int = 5) -> set[tuple[str, ...]]:
    words = words_of(text)
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
