"""Reads the text of an answer while it arrives, and takes off everything that is no word of the
reply: hidden reasoning in any form, and the marks of chat templates with the text behind them.

The kept text is the same, however the answer is cut into pieces. A mark that a sentence only
mentions is kept.
"""

import re

from agents.llm.providers.answers.answer_marks import (
    CHANNEL,
    CUT_MARK,
    FORMS,
    FRONT_IN_WORDS,
    HEADER,
    LEFT_OVER,
    LONGEST_MARK,
    MARK,
    NEXT_CHANNEL,
    ROLE,
    SIGNS,
    Thoughts,
    ends_a_sentence,
    is_label,
    is_line_start,
    is_quoted,
    is_within_sentence,
    may_be_next_channel,
    may_become_role,
    may_begin_in_words,
    unfinished_from,
)
from agents.llm.providers.base import Restart, StreamPart, TakenOff, TextDelta

# The number of characters before a mark that decide whether the mark stands inside a sentence.
_CONTEXT = 400
# At most this many characters are held back until it is clear whether they are thoughts.
MOST_HELD = 20_000
_BYTE_ORDER_MARK = "\ufeff"
_CALLED = re.compile(r"\bto=(?:functions\.)?([\w.-]+)")
# A quotation mark, or any sign behind a backslash.
_QUOTES = re.compile(r'\\.|"|\\\Z', re.DOTALL)
_SURROGATES = re.compile("[\ud800-\udfff]")


class AnswerText:
    """The reader of one text.

    If `holds`, the text is held back until it is clear whether it began with thoughts whose
    beginning was left out, because the model is known to leave out this beginning. Otherwise the
    text is shown at once, and taken back by Restart if the end of such thoughts follows.
    `continues` says that the text continues an earlier one, so that blank lines at its front are
    kept.
    """

    def __init__(self, *, holds: bool = False, continues: bool = False) -> None:
        self._continues = continues
        # Whether hidden reasoning was taken off, and whether its beginning was left out.
        self.had_thoughts = self.left_out_beginning = False
        # Whether a mark has ended the reply. The text behind the mark is dropped.
        self.has_ended = False
        # The text that is not read yet, because a mark may begin in it.
        self._held = ""
        # The form of the thoughts that are being read. Text of some forms may only look like
        # thoughts, and counts as thoughts only once their end has come. Thoughts of the other forms
        # end with the answer at the latest.
        self._inside: Thoughts | None = None
        self._begin = ""
        self._needs_end = False
        self._may_need_end = True
        self._searched = 0
        # The tool call that the model is writing in a channel.
        self._call: tuple[str, list[str]] | None = None
        # Whether the model has opened a channel for the reply.
        self._has_channel = False
        # The text that is held back because of `holds`. None if nothing is held back.
        self._waiting: list[str] | None = [] if holds else None
        self._waiting_length = 0
        # The last characters of the reply, and the space at its front.
        self._before = ""
        self._space: list[str] = []
        self._is_front = True
        # Whether something was taken off at the front, or since the last words.
        self._is_cut_front = self._is_cut = False
        self._expects_role = False
        self._is_in_struck_text = False
        self._is_plain = False
        # Whether the answer is an object of JSON, and one of its texts is open. The marks in this
        # text are left to the reader of the object.
        self._is_object = self._is_in_string = False
        self._escape = ""

    @property
    def has_text(self) -> bool:
        """Whether any word of the reply was handed out and not taken back."""
        return not self._is_front and self._waiting is None

    def take(self, piece: str) -> list[StreamPart]:
        """Read the next piece, and return what is clear by now."""
        if self._is_plain and not SIGNS.search(piece):
            # Most pieces are handled here. `_before` is not empty, because the reply has begun.
            self._before = (self._before + piece)[-_CONTEXT:]
            return [TextDelta(piece)] if piece else []
        return self._read(piece, is_last=False)

    def end(self, *, is_whole: bool) -> list[StreamPart]:
        """Return the text that was held back, because nothing follows it. `is_whole` says that the
        answer neither broke off nor was cut."""
        parts = self._read("", is_last=True)
        if self._call is not None:
            self._hand_on_call("", parts)
        self.had_thoughts = self.had_thoughts or self._inside is not None
        waiting, self._waiting = self._waiting, None
        if waiting and is_whole:
            parts.append(TextDelta("".join(waiting)))
        elif waiting:
            # The model is known for thoughts without a beginning, but the end of such thoughts
            # never came.
            self.had_thoughts, self._is_front = True, True
            parts.append(TakenOff("".join(waiting)))
        return parts

    def _read(self, piece: str, *, is_last: bool) -> list[StreamPart]:
        parts: list[StreamPart] = []
        self._held = _with_whole_characters(self._held + piece, is_last=is_last)
        while self._held and self._step(parts, is_last):
            pass
        self._is_plain = (
            self.has_text
            and not (self._held or self._is_cut or self.has_ended or self._is_object)
            and self._inside is None
        )
        return parts

    def _step(self, parts: list[StreamPart], is_last: bool) -> bool:
        """Read the part of the held text that is clear. Return False if more has to arrive."""
        if self.has_ended:
            self._take_off(len(self._held), parts)
            return False
        if self._inside is not None:
            return self._step_in_thoughts(self._inside, parts, is_last)
        if self._is_front and (known := self._step_at_front(parts, is_last)) is not None:
            return known
        mark = MARK.search(self._held)
        if mark is None:
            cut = CUT_MARK.search(self._held) if is_last else None
            length = len(self._held) if is_last else self._clear_length()
            self._tell(cut.start() if cut else length, parts)
            if cut:
                self._take_off(len(self._held), parts)
            return False
        self._tell(mark.start(), parts)
        # The text behind a mark decides whether a sentence only mentions the mark.
        is_clear = is_last or self._is_clear(mark[0], mark.string[mark.end() :])
        if not (is_clear or (self._is_front and (mark.lastgroup or "").startswith("begin"))):
            return False
        self._meet(mark, parts)
        return True

    @staticmethod
    def _is_clear(mark: str, after: str) -> bool:
        """Return whether enough text follows the mark to make its meaning clear."""
        if mark == "<|end|>" and may_be_next_channel(after):
            return False
        return len(after) > (after[:1] == " ")

    def _clear_length(self) -> int:
        # The text may end with the first half of a character.
        is_half = "\ud800" <= self._held[-1] <= "\udbff"
        return min(unfinished_from(self._held), len(self._held) - is_half)

    def _step_at_front(self, parts: list[StreamPart], is_last: bool) -> bool | None:
        """Read a form that counts only at the front. Return None if no such form stands there."""
        if self._expects_role:
            if role := ROLE.match(self._held):
                self._expects_role = False
                if role["other"]:
                    self.has_ended = True
                    return True
                self._take_off(role.end(), parts)
                return True
            if not is_last and len(self._held) < LONGEST_MARK and may_become_role(self._held):
                return False
            self._expects_role = False
        front = self._held.lstrip().lstrip(_BYTE_ORDER_MARK).lstrip()
        if left := LEFT_OVER.match(front):
            self._take_off(len(self._held) - len(front) + left.end(), parts)
            return True
        if begin := FRONT_IN_WORDS.match(front):
            form = FORMS[int((begin.lastgroup or "")[5:])]
            self._enter(len(self._held) - len(front) + begin.end(), form, parts)
            self._needs_end = form is not CHANNEL
            return True
        return False if front and not is_last and may_begin_in_words(front) else None

    def _step_in_thoughts(self, form: Thoughts, parts: list[StreamPart], is_last: bool) -> bool:
        end = form.ending.search(self._held, self._searched)
        if end is not None:
            self._leave(form, end, parts)
            return True
        if not self._needs_end:
            # The last characters are held back: they may be the beginning of the end mark.
            kept = 0 if is_last else LONGEST_MARK
            self._take_off(max(len(self._held) - kept, 0), parts)
            return False
        self._searched = max(len(self._held) - LONGEST_MARK, 0)
        if not is_last and len(self._held) < MOST_HELD:
            return False
        # No end came, so the text is no thoughts. From now on, no text is held back for thoughts of
        # this form.
        self._inside, self._needs_end, self._may_need_end, self._searched = None, False, False, 0
        self._tell_text(self._begin, parts)
        return True

    def _meet(self, mark: re.Match[str], parts: list[StreamPart]) -> None:
        """Read the mark at the beginning of the held text."""
        kind, length = mark.lastgroup or "", len(mark[0])
        after = self._held[length:]
        if self._is_in_string or self._is_mentioned(kind, mark[0], after):
            self._tell(length, parts)
        elif kind == "around":
            # Behind thoughts, such a tag is no word of the reply.
            (self._take_off if self.had_thoughts else self._tell)(length, parts)
        elif mark[0] == "<|end|>" and not self._is_front and NEXT_CHANNEL.match(after):
            self._take_off(length, parts)
        elif kind in ("turn", "line"):
            self._meet_turn(mark[0], parts)
        elif kind.startswith("begin"):
            form = FORMS[int(kind[5:])]
            self._needs_end = form.must_close or (
                self._needs_to_close(self._before) and form is not HEADER
            )
            self._enter(length, form, parts)
        else:
            self._end_alone(length, parts)

    def _is_mentioned(self, kind: str, mark: str, after: str) -> bool:
        before = "" if self._is_front else self._before
        if is_quoted(before, after):
            return True
        if kind == "line":
            return not is_line_start(before)
        if mark.casefold() in ("<s>", "</s>"):
            return self._is_strike(mark, before)
        if kind == "turn":
            is_word = after[:1] == " " and after[1:2].islower()
            return is_word and is_within_sentence(before, after)
        if kind.startswith("begin") and not ends_a_sentence(before):
            return not is_label(before)
        if kind.startswith("begin") and not self._may_need_end:
            return FORMS[int(kind[5:])].must_close or self._needs_to_close(before)
        return kind[:3] in ("beg", "end") and is_within_sentence(before, after)

    def _needs_to_close(self, before: str) -> bool:
        return not (self._is_front or is_line_start(before) or is_label(before))

    def _is_strike(self, mark: str, before: str) -> bool:
        """Return whether the mark strikes words out, as in "I <s>hate</s> love you"."""
        is_begin = mark == "<s>" and not ends_a_sentence(before)
        is_end = mark == "</s>" and self._is_in_struck_text
        self._is_in_struck_text = is_begin
        return is_begin or is_end

    def _meet_turn(self, mark: str, parts: list[StreamPart]) -> None:
        if self._is_front:
            # The template leaked its beginning.
            self._take_off(len(mark), parts)
            self._expects_role = True
        else:
            self.has_ended = True

    def _enter(self, length: int, form: Thoughts, parts: list[StreamPart]) -> None:
        self._begin = self._held[:length]
        is_empty = self._begin.endswith("/>")
        if self._needs_end or (form.is_in_words and form is not CHANNEL):
            self._held = self._held[length:]
        else:
            self._take_off(length, parts)
        if not is_empty:
            self._inside, self._searched = form, 0

    def _leave(self, form: Thoughts, end: re.Match[str], parts: list[StreamPart]) -> None:
        said = self._held[: end.start()]
        if self._needs_end:
            self._held, end_at = self._begin + self._held, end.end() + len(self._begin)
        else:
            end_at = end.end()
        if self._call is not None:
            self._call[1].append(said)
            self._hand_on_call("}</tool_call>", parts)
        self._take_off(end_at, parts)
        self._inside, self._needs_end, self._searched = None, False, 0
        if form is HEADER:
            self._open_channel(said, parts)
        else:
            self._have_thought()

    def _hand_on_call(self, closing: str, parts: list[StreamPart]) -> None:
        """Hand on the tool call that the model wrote in a channel. It is rewritten as
        `<tool_call>{…}`, the form that other models use."""
        assert self._call is not None, "There is a call to hand on."
        name, arguments = self._call
        self._call = None
        written = "".join(arguments).strip() or "{}"
        self._tell_text(f'<tool_call>{{"name": "{name}", "arguments": {written}{closing}', parts)

    def _open_channel(self, header: str, parts: list[StreamPart]) -> None:
        role, _, channel = header.rpartition("<|channel|>")
        said, _, role = role.rpartition("<|start|>")
        self.had_thoughts = self.had_thoughts or bool(said)
        if call := _CALLED.search(header):
            self._inside, self._call = CHANNEL, (call[1], [])
        elif role.strip().casefold() not in ("", "assistant"):
            self.has_ended = True
        elif channel.partition("<")[0].strip().casefold() not in ("", "final", "assistant"):
            self._inside = CHANNEL
        elif not self._is_front and self._has_channel:
            self.has_ended = True
        else:
            self._has_channel = True
            if not self._is_front:
                # The channel of the thoughts before was opened by the template.
                self._end_alone(0, parts)

    def _end_alone(self, length: int, parts: list[StreamPart]) -> None:
        """Read the end of thoughts without a beginning. All text before it was thoughts."""
        if not self._is_front:
            self.left_out_beginning = True
            if self._waiting is None:
                parts.append(Restart())
            elif self._waiting:
                parts.append(TakenOff("".join(self._waiting)))
        self._waiting = None
        self._before, self._is_front, self._is_cut = "", True, False
        self._take_off(length, parts)
        self._have_thought()

    def _have_thought(self) -> None:
        self.had_thoughts = True
        if self._waiting is not None and self._is_front:
            # The model wrote the beginning itself this time.
            self._waiting = None

    def _take_off(self, length: int, parts: list[StreamPart]) -> None:
        if length:
            parts.append(TakenOff(self._held[:length]))
            if self._call is not None:
                self._call[1].append(self._held[:length])
        self._held = self._held[length:]
        if self._is_front:
            self._is_cut_front = True
        else:
            self._is_cut = True

    def _tell(self, length: int, parts: list[StreamPart]) -> None:
        text, self._held = self._held[:length], self._held[length:]
        self._tell_text(text, parts)

    def _tell_text(self, text: str, parts: list[StreamPart]) -> None:
        """Hand out words of the reply."""
        if self._is_front:
            text = self._begin_with(text)
        elif self._is_cut:
            text = self._join(text)
        if not text:
            return
        self._before = (self._before + text)[-_CONTEXT:]
        if self._is_object:
            for sign in _QUOTES.findall(self._escape + text):
                self._is_in_string ^= sign == '"'
                self._escape = sign if sign == "\\" else ""
        if self._waiting is None:
            parts.append(TextDelta(text))
            return
        self._waiting.append(text)
        self._waiting_length += len(text)
        if self._waiting_length > MOST_HELD:
            parts.append(TextDelta("".join(self._waiting)))
            self._waiting = None

    def _begin_with(self, text: str) -> str:
        """Return the text without the blank lines at the front, or "" as long as nothing but space
        has come."""
        said = text.lstrip() if self._is_cut_front else text.lstrip().lstrip(_BYTE_ORDER_MARK)
        self._space.append(text[: len(text) - len(said)])
        if not said.strip():
            return ""
        space = "".join(self._space).replace(_BYTE_ORDER_MARK, "")
        self._space, self._is_front, self._expects_role = [], False, False
        self._is_object = said.startswith("{")
        if self._is_cut_front:
            return said
        return (space if self._continues else space.rpartition("\n")[2]) + said

    def _join(self, text: str) -> str:
        """Return the text after something was taken off before it, with one space between them."""
        after = text.lstrip() if self._before[-1:].isspace() else text
        if after:
            self._is_cut = False
            if not (after[0].isspace() or self._before[-1:].isspace()):
                return f" {after}"
        return after


def _with_whole_characters(text: str, *, is_last: bool) -> str:
    """Return the text with the halves of characters joined. A half at the end may still get its
    other half. A half without its other half is replaced."""
    if not _SURROGATES.search(text):
        return text
    last = "" if is_last or not "\ud800" <= text[-1] <= "\udbff" else text[-1]
    whole = text[: len(text) - len(last)].encode("utf-16", "surrogatepass")
    return whole.decode("utf-16", "replace") + last
