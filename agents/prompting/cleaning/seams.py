"""Joins a text that an output limit cut with a model's continuation of this text.

A cut text may end within a word, and models begin the continuation of half a word in different
ways. So the half word is left out of the text before the model is asked to continue, and the first
word of the continuation is a whole word. If the continuation begins with the last words of the
text, these words are kept once.
"""

import re
from dataclasses import dataclass, field

from sessions.language.sentences import BLANKLESS_ENDS, WORD_ENDS
from sessions.language.words import UNSPACED, is_unspaced

# A word with the signs beside it, or a single character of a script without blanks.
_TOKEN = re.compile(rf"[{UNSPACED}]|[^\s{UNSPACED}]+")
_HALF_WORD = re.compile(rf"[^\s{UNSPACED}]+\Z")
# The fewest words and characters at the beginning of a continuation that count as a repetition of
# the end of the text. A shorter repetition may be meant.
_LEAST_WORDS, _LEAST_CHARACTERS = 2, 4
# No word is longer than this number of characters. So no more characters are held back as one word,
# and a text without blanks is not read again with every piece.
_LONGEST_WORD = 200
# At most this many characters at the beginning of a continuation are held back as a possible
# repetition.
_LONGEST_REPETITION = 4_000
_DOT_SIGNS = " .\u2026"
_DOTS = re.compile(r"\A\s*(?:\u2026|\.\.\.)[ \t]*")


def without_half_word(text: str) -> str:
    """Return the text without its last word, if more letters of this word may follow."""
    if not text or text[-1].isspace() or WORD_ENDS.search(text[-1]):
        return text
    half = _HALF_WORD.search(text[-_LONGEST_WORD:])
    # A text without blanks that is longer than any word is let through.
    if half is None or (half.start() == 0 and len(text) >= _LONGEST_WORD):
        return text
    return text[: len(text) - len(half[0])]


@dataclass
class WholeWords:
    """Lets the text of a reply through in whole words. `take` returns the words that are whole by
    now, and `end` the rest."""

    _held: str = field(default="", init=False)

    def take(self, piece: str) -> str:
        text = self._held + piece
        whole = without_half_word(text)
        self._held = text[len(whole) :]
        return whole

    def end(self) -> str:
        rest, self._held = self._held, ""
        return rest


@dataclass
class Seam:
    """Joins the continuation of `before`, which ends with a whole word.

    `take` returns the text that follows `before`, as far as it is clear by now, and `end` the rest.
    The beginning of the continuation is held back as long as it may repeat the end of `before`.
    """

    before: str
    _held: str = field(default="", init=False)
    _is_open: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self._told = _TOKEN.findall(self.before[-_LONGEST_REPETITION:])
        # The places in `_told` where the next `_read` words are the first `_read` words of the
        # continuation.
        self._places = list(range(len(self._told)))
        self._read = 0

    def take(self, piece: str) -> str:
        if not self._is_open:
            return piece
        self._held += piece
        text = self._without_dots()
        # If only dots have come, they may still turn out to stand for the words before.
        words = _whole_tokens(text) if text.strip(_DOT_SIGNS) else []
        is_short = len(self._held) < _LONGEST_REPETITION
        if is_short and (not words or self._may_go_on_repeating(words)):
            return ""
        more = self._more()
        self._is_open = is_short and not more
        return more

    def end(self) -> str:
        """Return the text that was held back, because nothing follows it."""
        more = self._more() if self._is_open else ""
        self._is_open = False
        return more

    def _without_dots(self) -> str:
        """Return the text that is held back, without the dots that stand for the words before."""
        return _DOTS.sub("", self._held)

    def _more(self) -> str:
        """Return the text that is held back, without the words that repeat the end of `before`, and
        with the blank that belongs before it."""
        more = self._without_dots()
        words = list(_TOKEN.finditer(more))
        said = [word[0] for word in words]
        if count := next((n for n in range(len(said), 0, -1) if self._is_repeated(said[:n])), 0):
            more = more[words[count - 1].end() :]
        after = more.lstrip()
        last = self.before[-1:]
        if not after or not last or last.isspace():
            return after
        if "\n" in more[: len(more) - len(after)]:
            return more
        return after if is_unspaced(last) or BLANKLESS_ENDS.search(last) else f" {after}"

    def _may_go_on_repeating(self, words: list[str]) -> bool:
        """Return whether the text has these words somewhere, and at least one more after them.

        The words begin with the words of the previous call, which are not compared again.
        """
        for count in range(self._read, len(words)):
            told, word = self._told[count:], words[count]
            self._places = [at for at in self._places if at < len(told) and told[at] == word]
        self._read = len(words)
        return any(at + self._read < len(self._told) for at in self._places)

    def _is_repeated(self, words: list[str]) -> bool:
        is_enough = len(words) >= _LEAST_WORDS and len("".join(words)) >= _LEAST_CHARACTERS
        return is_enough and self._told[-len(words) :] == words


def _whole_tokens(text: str) -> list[str]:
    tokens: list[str] = _TOKEN.findall(text)
    is_whole = not text or text[-1].isspace() or is_unspaced(text[-1])
    return tokens if is_whole else tokens[:-1]
