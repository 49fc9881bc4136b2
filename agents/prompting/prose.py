"""Small judgements about prose that a narrator wrote."""

import re

_LEFT_OUT = " [...] "
_HEADING = re.compile(r"\A\s*## [A-Z_]+\n+(?=\S)")
# What a model sets before a paragraph and before a heading, and what it wraps one in.
_NUMBER = re.compile(r"\A[ \t]*+\d{1,3}[.)][ \t]++")
_SIGN = re.compile(r"\A#{1,6}[ \t]++")
_BOLD = ("**", "__")
_BLANKS = " \t"
# Possessive, so that no line takes longer than its length.
_SCENE_BREAK = re.compile(r"[ \t]*+(?:[*_-][ \t]*+){3,}+")
_LONGEST_HEADING = 80
_SPACE = re.compile(r"\s")
_SENTENCE_END = re.compile("[.!?\u2026][\"'\u201d\u2019\xbb)]*(?=\\s|$)")


def end_at_sentence(text: str) -> str:
    """Without the broken sentence that an output limit left at the end, unless it is most of it."""
    ends = [match.end() for match in _SENTENCE_END.finditer(text)]
    has_end = bool(ends) and ends[-1] >= len(text) / 2
    return text[: ends[-1]].rstrip() if has_end else text.rstrip()


def as_prose(text: str) -> str:
    """A narrator's text without the headings, numbers and bold marks that it set in it.

    Small models do, whatever they are told. What is no heading stays without its marks; breaks
    between scenes and single emphasis stay as they are. Nothing may be left.
    """
    lines = [_as_prose(line) for line in text.split("\n")]
    kept = "\n".join(line for line in lines if line is not None)
    return re.sub(r"\n{3,}", "\n\n", kept).strip("\n")


def _as_prose(line: str) -> str | None:
    """None for a heading."""
    if _SCENE_BREAK.fullmatch(line):
        return line
    line = _NUMBER.sub("", line)
    wrapped = _wrapped(line)
    if wrapped is not None:
        line = _NUMBER.sub("", wrapped)
        if len(line) <= _LONGEST_HEADING and not _SENTENCE_END.search(line):
            return None
    return line.replace("**", "")


def _wrapped(line: str) -> str | None:
    """What stands in the marks of a heading; None where they are not around all of the line.

    Step by step: a pattern for all of it would try each way to share a run of blanks among its
    parts, which takes a power of the run's length.
    """
    line = line.lstrip(_BLANKS)
    inside = line.rstrip(_BLANKS).rstrip("#").rstrip(_BLANKS)
    if sign := _SIGN.match(line):
        return inside[sign.end() :]
    inside = inside.removesuffix(":").rstrip(_BLANKS)
    is_bold = len(inside) > 4 and inside.startswith(_BOLD) and inside.endswith(_BOLD)
    return inside[2:-2] if is_bold else None


def without_heading(text: str) -> str:
    """Without a heading of the prompt that a small model began its reply with."""
    return _HEADING.sub("", text, count=1)


def last_words(text: str, count: int) -> str:
    """The end of the text: at least `count` words, from the beginning of a paragraph on."""
    paragraphs: list[str] = []
    words = 0
    for paragraph in reversed(text.split("\n\n")):
        paragraphs.append(paragraph)
        words += len(paragraph.split())
        if words >= count:
            break
    return "\n\n".join(reversed(paragraphs))


def last_sentences(text: str, limit: int) -> str:
    """The end of the text in so many characters, from the beginning of a sentence or a word on."""
    if len(text) <= limit:
        return text
    end = text[-limit:]
    for boundary in (_SENTENCE_END, _SPACE):
        found = boundary.search(end)
        if found is not None and found.end() <= limit / 2:
            return end[found.end() :].lstrip()
    return end


def without_middle(text: str, head: int = 420, tail: int = 180) -> str:
    """The beginning and the end of a long text; a short one as it is."""
    if len(text) <= head + tail + len(_LEFT_OUT):
        return text
    return text[:head] + _LEFT_OUT + text[-tail:]


def repeats(more: str, text: str) -> bool:
    """Whether most of `more` was said before: over half of its runs of five words are in `text`."""
    runs = _runs(more)
    return not runs or len(runs & _runs(text)) > len(runs) / 2


def _runs(text: str, length: int = 5) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}
