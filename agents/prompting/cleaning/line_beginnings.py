"""Reads the signs, the marks and the name at the beginning of a line, as far as the line has come.

agents.prompting.cleaning.speaker_labels says which beginnings are the label of a speaker.
"""

from collections.abc import Container

from sessions.language.speaker_marks import sign_as_read

_LONGEST_ASIDE = 60
COLONS = frozenset(
    ":\N{FULLWIDTH COLON}\N{SMALL COLON}\N{PRESENTATION FORM FOR VERTICAL COLON}\N{RATIO}"
)
DASHES = "-\N{EN DASH}\N{EM DASH}\N{HORIZONTAL BAR}\N{HYPHEN}\N{MINUS SIGN}"
_HYPHENS = "-\N{HYPHEN}\N{MINUS SIGN}"
# The marks that a model may put in front of a name, each with the mark that closes it.
WIDE_BRACKETS = {"【": "】", "［": "］"}  # noqa: RUF001
BRACKETS = {"[": "]", "<": ">"} | WIDE_BRACKETS
PARENTHESES = {"(": ")", "（": "）"}  # noqa: RUF001
QUOTES = {'"': '"', "“": "”"}
_EMPHASIS = {"*": "*", "_": "_"}
MARKS = BRACKETS | PARENTHESES | QUOTES | _EMPHASIS
MOST_MARKS = 3
# The marks that may enclose an aside after a name, as in "Tom (laughing):".
_ASIDES = PARENTHESES | {"[": "]", "【": "】", "*": "*", "_": "_"}
_LIST_SIGNS = "-+*•◦▪‣"
_MOST_LEADS = 3


class Unclear(Exception):
    """The line has not come far enough to show what its beginning is."""


class Line:
    """A line whose beginning is read. `at` is the place that was reached. Characters that can never
    be seen are passed over. All methods raise Unclear at the end of the text."""

    def __init__(self, text: str, at: int = 0) -> None:
        self._text, self.at = text, at

    def sign(self) -> str:
        while self.at < len(self._text):
            sign = self._text[self.at]
            if sign.isspace() or sign_as_read(sign):
                return sign
            self.at += 1
        raise Unclear

    def take(self, signs: Container[str]) -> str:
        sign = self.sign()
        if sign not in signs:
            return ""
        self.at += 1
        return sign

    def blanks(self) -> None:
        while self.sign().isspace() and self.sign() != "\n":
            self.at += 1

    def ends(self) -> bool:
        self.blanks()
        return self.sign() == "\n"

    def goes_on_below(self) -> bool:
        """Return whether words stand directly on the next line."""
        before, self.at = self.at, self.at + 1
        self.blanks()
        is_word, self.at = self.sign() != "\n", before
        return is_word

    @property
    def is_after_blank(self) -> bool:
        return self._text[self.at - 1].isspace()

    def begins_sentence(self) -> bool:
        """Return whether the next sign on this line may begin a sentence."""
        self.blanks()
        return self.sign() != "\n" and not self.sign().islower()

    def goes_on_small(self) -> bool:
        """Return whether the line continues with a small letter."""
        self.blanks()
        return self.sign().islower()

    def digits(self) -> str:
        digits = ""
        while len(digits) < 6 and self.sign().isdecimal():
            digits += self.take(self.sign())
        return digits

    def lead(self) -> str:
        """Read the signs in front of a name that make it an entry, a quotation or a heading."""
        kinds = ""
        while len(kinds) < _MOST_LEADS:
            self.blanks()
            before, kind = self.at, self._kind_of_lead()
            if not kind or (kind != ">" and not self.sign().isspace()):
                self.at = before
                break
            kinds += kind
        self.blanks()
        return kinds

    def _kind_of_lead(self) -> str:
        if self.take(">"):
            return ">"
        if self.take("#"):
            while self.take("#"):
                pass
            return "#"
        if self.sign().isdecimal():
            return "1" if self.digits() and self.take(".)") else ""
        return "-" if self.take(_LIST_SIGNS) else ""

    def opening(self) -> str:
        opening = ""
        while len(opening) <= MOST_MARKS and (mark := self.take(MARKS)):
            opening += mark
            if mark in BRACKETS:
                self.blanks()
        return opening

    def close(self, closing: list[str]) -> None:
        """Pass over the marks that close the marks in front. `closing` keeps the closing marks that
        are still to come."""
        if closing and closing[0] in BRACKETS.values():
            self.blanks()
        while closing and self.take(closing[0]):
            del closing[0]

    def name(self, read: str) -> str | None:
        """Read a name and return it as it is written, or return None if the line continues
        otherwise."""
        written, place = "", 0
        while place < len(read):
            sign = self.sign()
            if read[place] == " ":
                if not sign.isspace() or sign == "\n":
                    return None
                self.blanks()
                written, place = f"{written} ", place + 1
                continue
            if sign.isspace() or not read.startswith(sign_as_read(sign), place):
                return None
            written, place, self.at = written + sign, place + len(sign_as_read(sign)), self.at + 1
        return written

    def asides(self, *, without: str) -> str:
        """Pass over a number, and over words in marks, and return them. Marks around the name are
        not counted as marks of an aside."""
        start = self.at
        for _ in range(2):
            before = self.at
            self.blanks()
            is_apart = self.at > before or self.sign() == "#"
            self.take("#")
            if is_apart and self.digits():
                continue
            if not (mark := self.take(set(_ASIDES) - set(without))) or not self._aside(mark):
                self.at = before
                break
        return self._text[start : self.at]

    def _aside(self, mark: str) -> bool:
        for _ in range(_LONGEST_ASIDE):
            sign = self.sign()
            if sign == "\n":
                return False
            self.at += 1
            if sign == _ASIDES[mark]:
                return True
        return False

    def has_dash(self) -> bool:
        is_apart = self.is_after_blank
        dash = self.take(DASHES)
        if not dash or (dash in _HYPHENS and not is_apart):
            return False
        self.take(dash)
        return True


def lead_of(text: str) -> str:
    """Return the kinds of the signs of a list or a quotation at the beginning of a line."""
    return Line(f"{text}\n.").lead()
