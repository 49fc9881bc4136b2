"""Writes texts in a plain spelling for comparisons, so that nobody has to type the marks of letters
to find a text.

A mark is taken off where people leave it out when they type: accents of Latin and Greek letters,
stress and the dots of ё, the vowel signs of Hebrew and Arabic. A mark is kept where it makes
another letter: й, the voice marks of Japanese kana, the vowel signs of India. Not tried are
`Mueller` for `Müller`, other alphabets for the same word, hiragana for katakana, simplified for
traditional characters, and digits of other scripts.
"""

import re
import unicodedata
from collections.abc import Callable

# The marks of Latin, Greek and Cyrillic letters, of Hebrew and of Arabic, and the stroke that
# makes an Arabic word longer.
MARKS = (
    r"\u0300-\u036f\u0483-\u0487\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    r"\u0640\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u08ca-\u08e1"
    r"\u08e3-\u08ff\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
)
# Characters that nobody sees, such as a soft hyphen or a mark of direction. They belong to no
# spelling.
_UNSEEN = (
    r"\u00ad\u061c\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f"
    r"\ufeff\U000e0000-\U000e0fff"
)
_CYRILLIC = r"\u0400-\u052f"
# The marks that are taken off a text, whose letters and marks stand apart. After a Cyrillic letter,
# these are the dots of ё and a sign of stress, unless it makes a letter of Macedonian. PostgreSQL
# also uses this pattern and the letters.
TAKEN_OFF = (
    rf"[{_UNSEEN}]|(?<![{_CYRILLIC}])[{MARKS}]"
    rf"|(?<=[{_CYRILLIC}])(?<![\u0433\u043a])[\u0300\u0301]|(?<=\u0435)\u0308"
)
# Letters that people write in another way where a keyboard lacks them.
LETTERS = {
    **dict(zip("łøđðħŧıŋɓɖɗƒɣɨɔɛəǝȷ", "loddhtinbddfgioeeej", strict=True)),
    **{"æ": "ae", "œ": "oe", "ß": "ss", "þ": "th", "ς": "σ"},  # noqa: RUF001
    # The forms of letters that differ between keyboards for Arabic, Persian and Urdu.
    **dict(zip("ٱىةیکہھۃە", "ايهيكهههه", strict=True)),
    **dict.fromkeys("\u2018\u2019\u02bb\u02bc", "'"),
}
# Characters beyond ASCII that are left as they are. Beside ASCII, most English texts have only
# these, or an apostrophe.
KEPT = "\u2013\u2014\u201c\u201d"
_changed = re.compile(rf"[^\x00-\x7f{KEPT}]")
_taken_off = re.compile(TAKEN_OFF)
_cyrillic, _taken_off_elsewhere = re.compile(f"[{_CYRILLIC}]"), re.compile(f"[{_UNSEEN}{MARKS}]")
_unseen = re.compile(f"[{_UNSEEN}]")
_letters = re.compile(f"[{''.join(LETTERS)}]")
_apostrophes = re.compile("[\u2018\u2019\u02bb\u02bc]")
# Characters that, when a text is normalized, become one character with the character before them,
# or change it.
_JOINED = (
    rf"[{MARKS}{_UNSEEN}\u093c\u09bc\u09be\u09d7\u0a3c\u0b3c\u0b3e\u0b56\u0b57\u0bbe\u0bd7"
    r"\u0c56\u0cc2\u0cd5\u0cd6\u0d3e\u0d57\u0dca\u0dcf\u0ddf\u102e\u1161-\u11ff\u3099\u309a"
    r"\uff9e\uff9f]"
)
# A character of ASCII, which stays one character, or any other character together with the
# characters that join it.
_PART = re.compile(rf"[\x00-\x7f]+(?!{_JOINED})|(?s:.){_JOINED}*")


def plain_spelling(text: str) -> str:
    """Return the text in small letters without the marks that people may leave out when they type.
    Texts that differ only in capitals and in such marks have the same plain spelling."""
    if text.isascii():
        return text.lower()
    text = text.replace("\u2019", "'")
    if not _changed.search(text):
        return text.lower()
    apart = unicodedata.normalize("NFKD", text).lower()
    # Without Cyrillic, all marks go, and are found much faster.
    marks = _taken_off if _cyrillic.search(apart) else _taken_off_elsewhere
    plain = _letters.sub(lambda found: LETTERS[found[0]], marks.sub("", apart))
    return unicodedata.normalize("NFC", plain)


def even_spelling(text: str) -> str:
    """Return the text in small letters with all its marks, as dictionaries and stemmers have them.
    Every character has one form, and characters that nobody sees are left out."""
    if text.isascii():
        return text.lower()
    one_form = unicodedata.normalize("NFKC", _unseen.sub("", text)).lower()
    return _apostrophes.sub("'", one_form)


class Respelt:
    """A text in another spelling, which tells where each part of it stands in the text."""

    def __init__(self, original: str, spell: Callable[[str], str] = even_spelling) -> None:
        spelt: list[str] = []
        # For each character of the spelling, the beginning and the end of the characters that it
        # was made from.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for part in _PART.finditer(original):
            start, end = part.span()
            spelt.append(one := spell(part[0]))
            if part[0].isascii():
                self._starts += range(start, end)
                self._ends += range(start + 1, end + 1)
            else:
                self._starts += [start] * len(one)
                self._ends += [end] * len(one)
        self.text = "".join(spelt)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Return the beginning and the end, in the text, of the characters from `start` to `end` of
        the spelling."""
        return self._starts[start], self._ends[end - 1]
