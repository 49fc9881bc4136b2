"""Says where the sentences of a text end, in any script.

A sentence ends with a full stop, a question mark or the like of its script, and with the marks of
quotation, brackets and emphasis that close behind it. Thai and Lao have no such mark. Their writers
put a blank between sentences, so a sentence may end at each of their blanks.
"""

import re
from itertools import pairwise

# The marks that end a sentence if a blank or the end of the text follows: a point may also stand in
# a number, and three points in the middle of a sentence.
_SPACED = ".!?\u2026\u037e\u055c\u055e\u203c\u203d\u2047-\u2049\u2e2e\uff0e\u2024"
# The marks of Chinese and Japanese, in all their widths. No blank follows these marks.
_OF_HAN = "\u3002\uff01\uff1f\uff61\ufe12\ufe52\ufe56\ufe57"
# The marks of Armenian, Urdu and Arabic, the languages of India, Thai verse, Tibetan, Burmese,
# Ethiopic, Khmer and Mongolian. These marks stand only at the end of a sentence, so a missing blank
# does not matter.
_OWN = (
    "\u0589\u061e\u061f\u06d4\u0964\u0965\u0df4\u0e5a\u0e5b\u0f0d\u0f0e\u104b\u1362\u1367\u1368"
    "\u17d4\u17d5\u1803\u1809\u1c7e\u1c7f\uabeb"
)
_JOINED = _OF_HAN + _OWN
# A sentence is not ended by these marks: commas and the like of these scripts.
_CLAUSE_MARKS = (
    ",;:\u055d\u060c\u061b\u0f14\u104a\u1363-\u1366\u17d6\u1802\u3001\uff0c\uff1a\uff1b\uff64"
)
_DASHES = "\u2012-\u2015-"
# The marks that close a quotation or a bracket: in Chinese and Japanese, and in other scripts. A
# mark that may also open a quotation, and a mark of emphasis, counts as closing if a blank follows.
_CLOSING_OF_HAN = "\u300d\u300f\uff09\u3011\u3009\u300b\u3015\uff5d\uff60\uff63"
_CLOSING = rf"\u201d\u00bb\u203a)\]}}{_CLOSING_OF_HAN}"
_NOTES = "\u00b9\u00b2\u00b3\u2070\u2074-\u2079"
_MAY_CLOSE = rf"{_CLOSING}{_NOTES}\"'\u2019\u201c\u2018\u00ab\u2039\uff02\uff07*_~`"
_ARMENIAN, _GREEK = "\u0531-\u0587", "\u0370-\u03ff\u1f00-\u1fff"
_THAI_AND_LAO = "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ebd\u0ec0-\u0ecd\u0edc-\u0edf"
# Armenian is often written with colons for full stops, and in Greek a semicolon is a question mark.
# Japanese speech has no full stop before the mark that closes it. The quantifiers are possessive,
# so that the time is linear in the length of the text.
_END = re.compile(
    rf"(?<![{_SPACED}])[{_SPACED}]*+[{_JOINED}][{_SPACED}{_JOINED}]*+[\u2019{_CLOSING}]*"
    rf"(?:[{_MAY_CLOSE}]++(?=\s|\Z))?"
    rf"|(?:(?<![{_SPACED}])[{_SPACED}]++|(?<=[{_ARMENIAN}]):|(?<=[{_GREEK}]);)"
    rf"[{_MAY_CLOSE}]*+(?=\s|\Z)"
    rf"|[\u300d\u300f](?=\s|\Z)"
    rf"|(?<=[{_THAI_AND_LAO}])(?=\s)"
)
_LINES = re.compile(r"\n\s*")
_SPACE = re.compile(r"\s*")
_QUOTED = "[\"'\u201c\u201d\u2019\u00bb\u203a\u05f4\u300d\u300f\u301e\u301f\uff02]"
# Signs for long vowels and notes of music. Speech may end with them in Japanese.
_SUNG = "\u301c\uff5e\u266a-\u266c"
_GOES_ON = re.compile(rf"[{_CLAUSE_MARKS}{_DASHES}{_SUNG}][{_MAY_CLOSE}]*\Z|{_QUOTED}\Z")
# Lines that are spoken words, behind a dash, three points or an opening mark, and lines that stand
# as a whole in brackets or between marks of emphasis.
_SPEECH = re.compile(
    r"[\"\u201c\u201e\u00ab\u00bb\u2039\u203a\u05f4\u300c\u300e\u301d\uff02]"
    r"|[\u2012-\u2015-]{1,2}\s|[\u2014\u2015\u2500]{2}(?=\w)|(?:\u2026|\.{3})[\s\u2026]*(?=\w)"
)
_ENCLOSED = re.compile(r"\*[^*\s].*[^*]\*|_[^_\s].*[^_]_|\(.+\)|\uff08.+\uff09|\[.+\]", re.DOTALL)
_LETTER_OF_THAI_OR_LAO = re.compile(rf"[{_THAI_AND_LAO}][^\w{_THAI_AND_LAO}]*\Z")

# Speech in quotation marks. A quotation that nothing closes lasts to the end.
_QUOTATION = re.compile(
    '("[^"]*"?|\u201c[^\u201d]*\u201d?|\u201e[^\u201c\u201d]*[\u201c\u201d]?'
    "|\u300c[^\u300d]*\u300d?)"
)

# A word is complete before one of these marks, because these marks are no part of a word and open
# nothing.
WORD_ENDS = re.compile(rf"[{_SPACED}{_JOINED}{_CLAUSE_MARKS}{_CLOSING}]\Z")
# The same for the marks of Chinese and Japanese. No blank stands after these marks.
BLANKLESS_ENDS = re.compile(rf"[{_OF_HAN}\u3001\uff0c\uff1a\uff1b\uff64{_CLOSING_OF_HAN}]\Z")


def sentence_ends(text: str) -> list[int]:
    """Return the places right after the ends of sentences, with the marks that close behind them.

    The end of a text counts only if a mark stands there.
    """
    return [found.end() for found in _END.finditer(text)]


def split_sentences(text: str) -> list[str]:
    """Return the sentences of the text, each with the space behind it. A line ends a sentence too.
    Together they are the text."""
    ends = {_SPACE.match(text, end).end() for end in sentence_ends(text)}  # type: ignore[union-attr]
    ends |= {found.end() for found in _LINES.finditer(text)}
    return [text[start:end] for start, end in pairwise(sorted({0, *ends, len(text)}))]


def ends_sentence(text: str) -> bool:
    """Return whether the text ends with the mark of an end of a sentence."""
    told = text.rstrip()
    return bool(told) and sentence_ends(told)[-1:] == [len(told)]


def has_no_full_stops(text: str) -> bool:
    """Return whether the text ends in a script that marks no ends of sentences."""
    return bool(_LETTER_OF_THAI_OR_LAO.search(text))


def reads_as_prose(line: str) -> bool:
    """Return whether the marks of a line show that it is prose and no heading: it ends as a
    sentence or a part of a sentence does, it is spoken, it stands as a whole in brackets or between
    marks of emphasis, or its script marks no ends of sentences."""
    told = line.strip()
    return (
        ends_sentence(told)
        or has_no_full_stops(told)
        or bool(_GOES_ON.search(told) or _SPEECH.match(told) or _ENCLOSED.fullmatch(told))
    )


def split_speech(text: str) -> list[str]:
    """Return the parts of the text: by turns a part outside of quotation marks, which may be "",
    and a quotation with its marks. Together the parts are the text."""
    return _QUOTATION.split(text)


def outside_of_speech(text: str) -> str:
    return " ".join(split_speech(text)[::2])


def speech_in(text: str) -> str:
    return " ".join(split_speech(text)[1::2])
