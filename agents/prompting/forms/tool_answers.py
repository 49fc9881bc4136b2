"""Reads an answer while it arrives, and separates the words to show from the calls of tools.

A model may write its calls in a form of its own, whatever the request asked for, and even if the
request has no tools. This reader knows the forms (`call_marks`, `call_shapes`). A call is never
shown, even if it breaks off. Text that may become a call is held back until that is clear, and is
shown unchanged if it is no call.

The shown words and the calls are the same, however the answer is cut into pieces.
"""

import re
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

from agents.llm.providers.answers.answer_text import AnswerText
from agents.llm.providers.answers.tool_calls import MOST_ARGUMENTS, MOST_CALLS, TOO_MANY
from agents.llm.providers.base import StreamPart, TextDelta, ToolCall
from agents.prompting.forms.call_marks import (
    TOOL_FENCES,
    Found,
    call_starts,
    find_here,
    is_name,
    label_start,
    unfinished_mark,
    word_starts,
)
from agents.prompting.forms.call_runs import LONGEST_CODE, Code, Run, closing_of
from agents.prompting.forms.call_shapes import (
    Said,
    call_in_attributes,
    call_in_element,
    call_of,
    calls_in_code,
    calls_in_elements,
    may_become_call,
    said_in,
    text_so_far,
    with_quotes,
)
from agents.prompting.forms.json_scanning import LOOK_AHEAD, JsonScan
from agents.prompting.forms.tool_arguments import ARGUMENT_KEYS
from agents.prompting.tools import AnyTool, ToolForm

# An unfinished object has to grow by this fraction before it is read again. If it were read again
# for each piece, the time would grow with the square of the object's length.
_GROWTH = 1 / 64
_FENCE_END = re.compile(r"```+")
# The last word, with the signs that may stand between a name and its arguments.
_LAST_WORD = re.compile(r"(?<![\w.])([A-Za-z][\w.]*)([`*]*\s*:?\s*)\Z")
_BRACES_END = re.compile(r"<end_function_call>|</?\|?/?tool_call\|?>|\Z")
# The signs that may stand at the end of an answer that breaks off within calls.
_FRAGMENT = re.compile(r"[<\[][^>\n]{0,100}|(?:\S{1,100}\s*)?(?:`{1,3}\w{0,20}\s*)?[\[{]{0,2}\s*")
_MARK_BEGIN = re.compile(r"<\S{0,60}")
_SPACE = re.compile(r"\s*")
# How many objects with a text may stand within each other.
_MOST_WITHIN = 3
_MOST_READ_AGAIN = 40_000
# At most this many signs of the words shown last are kept, in order to find out whether they
# already have the text of an object.
_COMPARED = 4_000
_IN_ARGUMENTS = frozenset(ARGUMENT_KEYS)

NO_OBJECT = "Your answer was no whole JSON object of the form that was asked for. No call was made."
BROKEN_CALL = "A call broke off before its end and was not made."

Value = TypeVar("Value")
Waiting = Generator[None, None, Value]


@dataclass(frozen=True)
class AnswerEnd:
    """The part of an answer that is known only at its end: the rest of the text, and the tool
    calls. `problem` tells the model which part could not be read, or is "" if everything could be
    read."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    problem: str = ""


class AnswerReader:
    """The reader of one answer of an agent with these tools, or without tools. `form` is the form
    of calls that the request asked for. `anew` returns a reader of the same kind."""

    def __init__(self, tools: Sequence[AnyTool] = (), form: ToolForm = "native") -> None:
        self.anew = partial(AnswerReader, tools, form)
        self._tools = {tool.name: tool.schema.parameters for tool in tools}
        self._names = frozenset(self._tools)
        self._is_json = form == "json"
        # The text that was not read yet, from the place `_at` on, and the sign before it.
        self._text, self._at = "", 0
        self._is_over = False
        # The number of signs that may still be read again. It is limited, so that the time is
        # linear in the answer's length.
        self._room_to_read_again = _MOST_READ_AGAIN
        self._out: list[str] = []
        self._has_shown = False
        # The last words that were shown, and the text of an object that was shown while it came.
        self._before = ""
        self._streamed = ""
        self._depth = 0
        self._calls: list[ToolCall] = []
        self._problem = ""
        self._reading = self._read()

    def take(self, piece: str) -> str:
        """Read the next piece of the answer, and return the text that can be shown now."""
        kept = max(self._at - 1, 0)
        self._text, self._at = self._text[kept:] + piece, self._at - kept
        next(self._reading, None)
        return self._drain()

    def end(self) -> AnswerEnd:
        """Return the rest of the text and the tool calls. This method may be called only once."""
        self._is_over = True
        next(self._reading, None)
        return AnswerEnd(self._drain(), tuple(_bounded(self._calls)), self._problem)

    @cached_property
    def _inner(self) -> "AnswerReader":
        return self._inner_reader()

    @cached_property
    def _inner_text(self) -> AnswerText:
        return AnswerText(continues=True)

    def _drain(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    def _show(self, text: str) -> None:
        if text:
            self._out.append(text)
            self._before = (self._before + text)[-_COMPARED:]
            self._has_shown = self._has_shown or not text.isspace()

    def _read(self) -> Waiting[None]:
        while found := (yield from self._pass_words()):
            run = Run()
            yield from self._read_run(run, found)
            self._settle(run)

    def _pass_words(self) -> Waiting[Found | None]:
        """Show words up to a place where a call begins. Return None at the end of the answer."""
        starts = call_starts(self._names)
        while True:
            start = starts.search(self._text, self._at)
            until = start.start() if start else self._until_name()
            self._show(self._text[self._at : until])
            self._at = until
            if start:
                found = yield from self._find_here(Run())
                if found:
                    return found
                if self._is_over and self._is_unfinished_mark():
                    self._at = len(self._text)
                    self._problem = NO_OBJECT if self._is_json else BROKEN_CALL
                else:
                    self._show(self._text[self._at])
                    self._at += 1
            elif self._is_over:
                return None
            else:
                yield

    def _until_name(self) -> int:
        """Return the place where the part that can be shown ends: before a word that may become the
        name of a tool, or its end."""
        if self._is_over:
            return len(self._text)
        near = max(self._at, len(self._text) - LOOK_AHEAD)
        if (label := label_start(self._text, near)) >= 0:
            return label
        if not self._names:
            return len(self._text)
        word = _LAST_WORD.search(self._text, near)
        if word is None:
            return len(self._text)
        name = word[1].rpartition(".")[2]
        is_start = is_name(name, self._names) if word[2] else name in word_starts(self._names)
        return word.start() if is_start else len(self._text)

    def _is_unfinished_mark(self) -> bool:
        rest = self._text[self._at :]
        if self._is_json and not self._has_shown and rest.strip() in ("{", "[", "[{"):
            return True
        return ">" not in rest and "]" not in rest and unfinished_mark(rest)

    def _find_here(self, run: Run) -> Waiting[Found | None]:
        while True:
            if window := self._text[self._at : self._at + LOOK_AHEAD]:
                found = find_here(
                    window,
                    self._names,
                    is_whole=self._is_over,
                    within=run.is_within,
                    in_fence=run.in_fence,
                )
                if found != "open":
                    return found
            elif self._is_over:
                return None
            yield

    def _take(self, run: Run, until: int) -> str:
        text, self._at = self._text[self._at : until], until
        run.raw += [run.space, text]
        run.space = ""
        return text

    def _read_run(self, run: Run, found: Found | None) -> Waiting[None]:
        while found:
            text = self._take(run, self._at + len(found.text))
            run.loose = [*run.loose, text] if found.kind == "name" else []
            yield from self._read_found(run, found)
            if run.is_broken:
                return
            yield from self._skip_space(run)
            mark, found = found, (yield from self._find_here(run))
            if found is None and mark.kind == "mark" and mark.text[0] == "<" and not mark.is_end:
                yield from self._read_between(run, closing_of(mark))
                return
            goes_on = mark.kind in ("name", "label", "between") or run.is_within
            if not (goes_on or (found and (found.kind == "between" or found.is_end))):
                return

    def _read_found(self, run: Run, found: Found) -> Waiting[None]:
        match found.kind:
            case "mark":
                run.is_within = run.in_fence or not found.is_end
                run.mark, run.has_mark = found.name, True
            case "fence" if found.name in TOOL_FENCES and not run.in_fence:
                yield from self._read_between(run, _FENCE_END)
            case "fence":
                run.in_fence = run.is_within = not found.is_end
            case "name" if run.mark != "CALL_ID" and found.name != "function":
                run.name = found.name
            case "json":
                yield from self._read_json(run)
            case "code":
                yield from self._read_code(run)
            case "element":
                yield from self._read_element(run, found)
            case "braces":
                yield from self._read_braces(run, found)

    def _read_between(self, run: Run, closing: re.Pattern[str]) -> Waiting[None]:
        """Read the text in a fence for calls or between two marks, in any form. If the fence or the
        mark is not closed, the text counts as words."""
        while True:
            # The place changes whenever another piece arrives.
            begin = self._at
            window = self._text[begin : begin + LONGEST_CODE]
            end = closing.search(window)
            if end or self._is_over or len(window) == LONGEST_CODE:
                break
            yield
        if not end and not (closing is _FENCE_END and self._is_over):
            return
        inside = self._take(run, begin + end.start() if end else len(self._text))
        if end:
            self._take(run, begin + end.end())
        reader = self._inner_reader()
        reader.take(inside)
        calls = [*reader.end().calls] or calls_in_code(inside, self._tools)
        calls = calls or calls_in_elements(inside, self._tools)
        run.said.append(Said(calls, is_whole=bool(calls)))

    def _skip_space(self, run: Run) -> Waiting[None]:
        while True:
            if space := _SPACE.match(self._text, self._at):
                run.space += space[0]
                self._at = space.end()
            if self._at < len(self._text) or self._is_over:
                return
            yield

    def _read_json(self, run: Run) -> Waiting[None]:
        scan = JsonScan()
        is_first = not self._has_shown and bool(self._names)
        read_at, length = 0.0, 0
        while True:
            until = scan.take(self._text, self._at, is_over=self._is_over)
            length += len(self._take(run, until))
            if is_first and (length >= read_at or scan.is_done):
                read_at = length * (1 + _GROWTH)
                self._stream(text_so_far(scan.value_so_far()))
            if scan.is_done or self._is_over:
                break
            yield
        self._judge(run, scan, is_first=is_first)

    def _judge(self, run: Run, scan: JsonScan, *, is_first: bool) -> None:
        """Find the calls and the text in a value of JSON that was read to its end."""
        name, run.name = run.name, ""
        value = None if scan.is_prose else scan.value()
        is_text = is_first or self._is_json
        said: Said | None = None
        if name and isinstance(value, dict):
            said = Said([call_of(name, value, self._tools)])
        elif value is not None:
            said = said_in(value, self._tools, may_be_text=is_text)
        is_whole = scan.is_closed or scan.lacks_only_brackets_outside(_IN_ARGUMENTS)
        if said and said.is_whole and (is_whole or (scan.is_done and not scan.is_too_deep)):
            run.said.append(said)
            return
        is_call = said is not None or bool(self._streamed) or (run.has_mark and not run.in_fence)
        if not scan.is_done and not is_call:
            is_call = bool(name) or may_become_call(value, self._tools)
            is_call = is_call or (self._is_json and is_first)
        if is_call or (is_first and scan.is_too_deep):
            run.said.append(Said(text=said.text if said else None, is_whole=False))
            run.is_broken = not scan.is_closed

    def _stream(self, text: str) -> None:
        """Show the part of an unfinished object's text that was not shown yet."""
        if text.startswith(self._streamed):
            new = text[len(self._streamed) :]
            self._streamed = text
            self._show_within(self._inner_text.take(new))

    def _read_code(self, run: Run) -> Waiting[None]:
        """Read a call in Python up to the bracket that closes it."""
        code = Code()
        while not code.is_closed and code.length < LONGEST_CODE:
            until = code.end_in(self._text, self._at, is_over=self._is_over)
            is_waiting = until == self._at or until == len(self._text)
            code.take(self._take(run, until))
            if is_waiting and not code.is_closed:
                if self._is_over:
                    break
                yield
        calls = calls_in_code(code.text, self._tools) if code.is_closed else []
        if calls or run.has_mark or self._is_over:
            run.said.append(Said(calls, is_whole=bool(calls)))

    def _read_element(self, run: Run, found: Found) -> Waiting[None]:
        """Read an element up to the tag that closes it."""
        name = found.name or run.name
        run.name = ""
        if found.is_end:
            run.said.append(Said([call_in_attributes(name, found.text, self._tools)]))
            return
        closing = closing_of(found)
        parts: list[str] = []
        length = 0
        while not (end := closing.search(self._text, self._at)):
            # The closing tag may begin at the last "<" of the text.
            near = self._text.rfind("<", max(self._at, len(self._text) - 40))
            part = self._take(run, near if near >= 0 and not self._is_over else len(self._text))
            length += len(part)
            parts.append(part if length <= MOST_ARGUMENTS + 1 else "")
            if self._is_over:
                run.is_broken = True
                break
            yield
        else:
            inside = self._take(run, end.start())
            self._take(run, end.end())
            length += len(inside)
            parts.append(inside[: MOST_ARGUMENTS + 1])
        inside = "".join(parts) if length <= MOST_ARGUMENTS else "x" * length
        if run.is_broken:
            scan = JsonScan()
            scan.take(inside.strip(), 0, is_over=True)
            run.is_broken = not (inside.strip()[:1] == "{" and scan.is_closed)
        whole = [] if run.is_broken else [call_in_element(name, inside, self._tools)]
        run.said.append(Said(whole, is_whole=not run.is_broken))

    def _read_braces(self, run: Run, found: Found) -> Waiting[None]:
        """Read arguments whose texts stand between marks, up to the mark behind the arguments."""
        while True:
            window = self._text[self._at : self._at + MOST_ARGUMENTS]
            end = _BRACES_END.search(window)
            if (end and end[0]) or self._is_over or len(window) == MOST_ARGUMENTS:
                break
            yield
        inside = self._take(run, self._at + end.start() if end else len(self._text))
        scan = JsonScan()
        scan.take(with_quotes(inside), 0, is_over=True)
        value = scan.value() if scan.is_closed else None
        calls = [call_of(found.name, value, self._tools)] if isinstance(value, dict) else []
        run.said.append(Said(calls, is_whole=bool(calls)))

    def _settle(self, run: Run) -> None:
        """Take the calls of a run, or show the run as words if it has no calls."""
        rest = self._text[self._at :] if self._is_over and run.has_mark else ""
        fragment = _FRAGMENT if run.is_within else _MARK_BEGIN
        if rest and fragment.fullmatch(rest):
            # The answer ends within a mark or a name.
            self._take(run, len(self._text))
            run.loose = []
        is_at_end = self._is_over and self._at >= len(self._text)
        if not run.said and run.has_mark and (is_at_end or not run.is_within):
            # An opening mark at the end of an answer begins a call that broke off. A mark that
            # closes a call which was taken already means nothing.
            is_rest = not run.is_within and bool(self._calls or self._problem)
            run.said += [Said()] if is_rest else [Said(is_whole=False)] if run.is_within else []
        if not run.said:
            self._show_words("".join([*run.raw, run.space]))
            return
        for said in run.said:
            self._show_said(said.text)
            self._add_calls(said.calls)
            if not said.is_whole:
                self._problem = NO_OBJECT if self._is_json and not run.has_mark else BROKEN_CALL
        self._show("".join(run.loose))
        if self._has_shown:
            # The line breaks before and behind calls count as one break.
            known = len(self._before) - len(self._before.rstrip("\n"))
            begin = len(run.space) - len(run.space.lstrip("\n"))
            self._show(run.space[min(known, begin) :])

    def _show_words(self, words: str) -> None:
        """Show text that began like a call and is none. If a call stands within the text, it is
        read."""
        is_read_again = (
            len(words) <= self._room_to_read_again
            and call_starts(self._names).search(words, 1) is not None
        )
        if not is_read_again:
            self._show(words)
            return
        self._room_to_read_again -= len(words)
        self._show(words[0])
        self._text, self._at = words + self._text[self._at :], 1

    def _inner_reader(self) -> "AnswerReader":
        """Return a reader for the text within a call or an object, where further calls may
        stand."""
        reader = AnswerReader()
        reader._tools, reader._names = self._tools, self._names
        reader._depth = self._depth + 1
        return reader

    def _show_said(self, text: str | None) -> None:
        """Show the text of an object to its end, unless the words before the object were already
        the same."""
        if text is not None and (self._streamed or text.strip() not in self._before):
            self._stream(text)
        self._show_within(self._inner_text.end(is_whole=True))
        end, self._streamed = self._inner.end(), ""
        del self._inner, self._inner_text
        self._show(end.text)
        self._add_calls(end.calls)
        self._problem = end.problem or self._problem

    def _show_within(self, parts: Sequence[StreamPart]) -> None:
        """Show the words of the text of an object. Thoughts and marks in it are taken off here,
        because only this method knows which text of the object is shown."""
        for part in parts:
            if isinstance(part, TextDelta):
                is_read = self._depth < _MOST_WITHIN
                self._show(self._inner.take(part.text) if is_read else part.text)

    def _add_calls(self, calls: Sequence[ToolCall]) -> None:
        self._calls += calls[: max(MOST_CALLS + 1 - len(self._calls), 0)]


def _bounded(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the first MOST_CALLS calls. If there are more, add one call, whose problem says that
    the further calls are not run."""
    more = [ToolCall("", calls[MOST_CALLS].name, "{}", TOO_MANY)] if calls[MOST_CALLS:] else []
    return [*calls[:MOST_CALLS], *more]
