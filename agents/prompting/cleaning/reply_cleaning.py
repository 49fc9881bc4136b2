"""Cleans the reply of a character while it is written.

Models imitate the transcript: they write their own name in front of a reply, and continue with the
words of somebody else. The own name is removed, and the reply ends before the first line that
begins with the label of another member of the cast, or of somebody who is no member, such as the
Game Master (see agents.prompting.cleaning.speaker_labels). A line inside a quotation is kept, and
so is an entry of a list, so that a character can read a letter aloud. A small model also writes
"I:" before what it says or does. This is removed from every line.

The text is read sign by sign, and what is kept depends only on the signs before. So the words are
the same whatever pieces they come in. A line that may still turn out to begin with a label is held
back until that is clear.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from agents.prompting.cleaning.line_beginnings import Unclear, lead_of
from agents.prompting.cleaning.speaker_labels import Label, LabelReader, Place

# The marks that open a quotation, each with the marks that close it.
_QUOTATIONS = {'"': '"', "“": "”", "„": "“”", "«": "»", "»": "«", "「": "」", "『": "』"}


@dataclass
class ReplyCleaner:
    """The cleaner of one reply of the character `own`. `others` are the other names of the cast.
    `is_small` says that a small model writes the reply. `numbers` are the numbers that the
    transcript may give to the prompt and to the next prompt. If the text `continues` a reply, only
    the own name in front is removed.

    `take` returns the text that is clear by now, and `end` returns the rest. `ended_before` names
    the speaker at whose line the reply was ended, or is "".
    """

    own: str
    others: Sequence[str] = ()
    is_small: bool = False
    numbers: Sequence[int] = ()
    continues: bool = False
    ended_before: str = field(default="", init=False)
    # The line feeds that came last, with their blanks. They are left out if the reply ends here.
    _space: str = field(default="", init=False)
    # The beginning of the present line while it may be a label, or "". It may reach into the next
    # line.
    _line: str = field(default="", init=False)
    _is_line_start: bool = field(default=True, init=False)
    # True until the first words of the reply are clear.
    _is_first: bool = field(default=True, init=False)
    _drops_space: bool = field(default=False, init=False)
    # The last sign that was kept and is no space. The next field says with what the line before
    # began, if this line may belong to a list (see Place).
    _last: str = field(default="", init=False)
    _listed: str = field(default="", init=False)
    # The marks that close the open quotation, or "".
    _closing: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._labels = LabelReader(
            self.own,
            self.others,
            is_small=self.is_small,
            numbers=self.numbers,
            continues=self.continues,
        )

    def new(self) -> "ReplyCleaner":
        """Return a cleaner for another reply to the same prompt."""
        return ReplyCleaner(self.own, self.others, self.is_small, self.numbers, self.continues)

    def clean(self, text: str) -> tuple[str, str]:
        """Return the cleaned text of a whole reply, and the speaker at whose line it was ended."""
        cleaner = self.new()
        clean = cleaner.take(text) + cleaner.end()
        return clean.rstrip() if cleaner.ended_before else clean, cleaner.ended_before

    def take(self, piece: str) -> str:
        """Return the text that is clear once this piece has come."""
        clear: list[str] = []
        at = 0
        while at < len(piece) and not self.ended_before:
            end = at
            if self._is_within_line:
                # No label can begin before the next line, so the rest of this line is clear.
                feed = piece.find("\n", at)
                end = len(piece) if feed < 0 else feed
            clear.append(self._pass(piece[at:end]) if end > at else self._read(piece[at]))
            at = max(end, at + 1)
        return "".join(clear)

    def end(self) -> str:
        """Return the text that was held back, because nothing follows it."""
        rest, place = self._space + self._line, self._place
        label = self._last_label(place) if self._line else None
        self._space = self._line = ""
        if label is None or label.is_own or place.is_entry(label.lead):
            return rest
        self.ended_before = label.name
        return ""

    def _last_label(self, place: Place) -> Label | None:
        try:
            return self._labels.read(f"{self._line}\n\n", place)
        except Unclear:
            return None

    @property
    def _place(self) -> Place:
        has_gap = not self._last or self._space.count("\n") > 1
        return Place(self._is_first, has_gap, self._last, self._listed)

    def _read(self, sign: str) -> str:
        if sign.isspace() and not self._line:
            return self._read_space(sign)
        if not (self._line or self._is_line_start):
            return self._pass(sign)
        if self._closing:
            self._listed = ""
            return self._pass(sign)
        self._line += sign
        try:
            label = self._labels.read(self._line, self._place)
        except Unclear:
            return ""
        line, self._line = self._line, ""
        is_entry = label is not None and self._place.is_entry(label.lead)
        if label is None or (is_entry and not label.is_own):
            return self._pass_line(line, label)
        if label.is_own:
            # The line feeds before the own name are left out, because the reply begins behind the
            # name.
            self._space = "" if self._is_first else self._space
            self._is_first, self._drops_space, self._is_line_start = False, True, False
            return self.take(line[label.length :])
        self._space, self.ended_before = "", label.name
        return ""

    def _pass_line(self, line: str, entry: Label | None) -> str:
        """Return the beginning of a line, which is no label or only an entry of a list."""
        head, feed, below = line.partition("\n")
        lead = lead_of(head)
        clear = self._pass(head)
        self._listed = lead or (":" if entry else "")
        return clear + self.take(feed + below)

    @property
    def _is_within_line(self) -> bool:
        return not (self._line or self._space or self._is_line_start or self._drops_space)

    def _read_space(self, sign: str) -> str:
        if sign != "\n" and self._is_within_line:
            return sign
        if sign == "\n":
            self._is_line_start = True
        if not self._drops_space:
            self._space += sign
        if self._space.count("\n") > 1:
            # A quotation that is open at the end of a paragraph was not closed, or the next
            # paragraph opens it again.
            self._closing = ""
        return ""

    def _pass(self, text: str) -> str:
        """Return the text with the space before it, because it is clear."""
        for sign in text:
            if self._closing:
                self._closing = "" if sign in self._closing else self._closing
            else:
                self._closing = _QUOTATIONS.get(sign, "")
        clear, self._space = self._space + text, ""
        self._last = (clear.rstrip() or self._last)[-1:]
        self._is_first = self._drops_space = self._is_line_start = False
        return clear
