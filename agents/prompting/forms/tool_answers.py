"""Reads an answer with tool calls while it arrives, and separates the text to show from the calls.

Only calls that the model writes in this answer are read. A call does not count if it is incomplete
or not in the form that the request asked for.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic_core import from_json

from agents.prompting.escaping import CALL_ELEMENT, CALLS_KEY
from agents.prompting.forms.tolerant_xml import read_element
from agents.prompting.tools import Tool, ToolForm
from agents.providers.base import ToolCall
from agents.providers.tool_calls import (
    LONGEST_NAME,
    MOST_ARGUMENTS,
    MOST_CALLS,
    TOO_LONG,
    TOO_MANY,
    arguments_text,
)

# The fraction by which an unfinished object has to grow before it is read again. If it were read
# again for each piece, the time would grow with the square of the object's length.
_GROWTH = 1 / 64
_OBJECT = re.compile(r"\s*+(?:```\w*+\s*+)?\{")
_MAY_BECOME_ONE = re.compile(r"\s*+(?:`{1,3}\w{0,9}+\s*+)?")

NO_OBJECT = "Your answer was no whole JSON object of the form that was asked for. No call was made."
BROKEN_CALL = "A call broke off before its end and was not made."


@dataclass(frozen=True)
class AnswerEnd:
    """The part of an answer that is known only at its end: the rest of the text, and the tool
    calls. `problem` tells the model which part could not be read, or is "" if everything could be
    read."""

    text: str = ""
    calls: Sequence[ToolCall] = ()
    problem: str = ""


class AnswerReader(Protocol):
    def take(self, piece: str) -> str:
        """Read the next piece of the answer, and return the text that can be shown now."""

    def end(self) -> AnswerEnd:
        """Return the rest of the text and the tool calls. This method may be called only once."""


def reader_for(form: ToolForm, tools: Sequence[Tool]) -> AnswerReader:
    match form:
        case "json":
            return JsonAnswer()
        case "xml":
            return XmlAnswer({tool.name: tool.schema.parameters for tool in tools})
    return PlainAnswer()


class PlainAnswer:
    """A reader of an answer that is only text, because the server sends tool calls separately."""

    def take(self, piece: str) -> str:
        return piece

    def end(self) -> AnswerEnd:
        return AnswerEnd()


class JsonAnswer:
    """A reader of an answer that is one JSON object with a text and a list of calls. An answer in
    another form counts as text."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._read_at = 0.0
        self._shown = ""

    def take(self, piece: str) -> str:
        self._parts.append(piece)
        self._length += len(piece)
        if self._length < self._read_at:
            return ""
        self._read_at = self._length * (1 + _GROWTH)
        return self._show(self._read_text())

    def end(self) -> AnswerEnd:
        answer = "".join(self._parts)
        if not _OBJECT.match(answer):
            return AnswerEnd(self._show(answer))
        try:
            # The decoder accepts line breaks inside strings, which small models write.
            said, _ = json.JSONDecoder(strict=False).raw_decode(answer, answer.index("{"))
        except (ValueError, RecursionError):
            return AnswerEnd(self._show(self._read_text()), problem=NO_OBJECT)
        text, calls = said.get("text", ""), said.get(CALLS_KEY, [])
        if not (isinstance(text, str) and isinstance(calls, list)):
            return AnswerEnd(problem=NO_OBJECT)
        return AnswerEnd(self._show(text), _bounded([_call_in(one) for one in calls]))

    def _read_text(self) -> str:
        answer = "".join(self._parts)
        if not (begin := _OBJECT.match(answer)):
            return "" if _MAY_BECOME_ONE.fullmatch(answer) else answer
        try:
            said = from_json(answer[begin.end() - 1 :], allow_partial="trailing-strings")
        except ValueError:
            return ""
        text = said.get("text")
        return text if isinstance(text, str) else ""

    def _show(self, text: str) -> str:
        """Return the part of the text that was not shown yet, or "" if the text does not begin with
        the part that was shown."""
        if not text.startswith(self._shown):
            return ""
        new = text[len(self._shown) :]
        self._shown = text
        return new


_BEGIN = f"<{CALL_ELEMENT}"
_END = f"</{CALL_ELEMENT}>"
_TAG = re.compile(rf"{_BEGIN}\s+name\s*=\s*[\"']?(?P<name>[^\"'<>\s/]*)[^<>]*?(?P<is_whole>/?)>")
_LONGEST_TAG = 200


class XmlAnswer:
    """A reader of a text with calls in XML. A call is never shown, even if it breaks off."""

    def __init__(self, parameters: Mapping[str, Mapping[str, Any]]) -> None:
        self._parameters = parameters
        # The end of the text so far, if the start or end tag of a call may begin there.
        self._held = ""
        # The name of the tool in the open call, or None if no call is open. The next field has the
        # content of the call, or None if the content is too long.
        self._name: str | None = None
        self._inside: list[str] | None = []
        self._length = 0
        self._calls: list[ToolCall] = []

    def take(self, piece: str) -> str:
        self._held += piece
        shown: list[str] = []
        while self._step(shown):
            pass
        return "".join(shown)

    def end(self) -> AnswerEnd:
        is_broken = self._name is not None or bool(_TAG.match(self._held))
        text = "" if is_broken else self._held
        return AnswerEnd(text, _bounded(self._calls), BROKEN_CALL if is_broken else "")

    def _step(self, shown: list[str]) -> bool:
        """Read the part of the held text that is complete. Return False if more text has to arrive
        before anything else can be read."""
        return self._step_in_text(shown) if self._name is None else self._step_in_call()

    def _step_in_text(self, shown: list[str]) -> bool:
        at = self._held.find(_BEGIN)
        if at < 0:
            # The start tag of a call may begin in the last characters, at the last "<" of the text.
            last = max(len(self._held) - len(_BEGIN) + 1, 0)
            at = self._held.rfind("<", last)
            if at < 0 or not _BEGIN.startswith(self._held[at:]):
                at = len(self._held)
            shown.append(self._held[:at])
            self._held = self._held[at:]
            return False
        shown.append(self._held[:at])
        self._held = self._held[at:]
        if tag := _TAG.match(self._held[:_LONGEST_TAG]):
            self._name, self._inside, self._length = tag["name"], [], 0
            self._held = self._held[tag.end() :]
            if tag["is_whole"]:
                self._close()
            return True
        if ">" not in self._held and len(self._held) < _LONGEST_TAG:
            return False
        shown.append(_BEGIN)
        self._held = self._held[len(_BEGIN) :]
        return True

    def _step_in_call(self) -> bool:
        inside, end, after = self._held.partition(_END)
        if not end:
            keep = max(len(self._held) - len(_END) + 1, 0)
            inside, after = self._held[:keep], self._held[keep:]
        self._held = after
        self._length += len(inside)
        if self._length > MOST_ARGUMENTS:
            self._inside = None
        elif self._inside is not None:
            self._inside.append(inside)
        if end:
            self._close()
        return bool(end)

    def _close(self) -> None:
        name, self._name = (self._name or "")[:LONGEST_NAME], None
        if len(self._calls) > MOST_CALLS:
            return
        if self._inside is None:
            self._calls.append(ToolCall("", name, "{}", TOO_LONG))
            return
        inside, schema = "".join(self._inside).strip(), self._parameters.get(name)
        if schema is not None and not inside.startswith("{"):
            inside = json.dumps(read_element(inside, name, schema))
        self._calls.append(ToolCall("", name, inside))


def _call_in(said: object) -> ToolCall:
    entry = said if isinstance(said, dict) else {}
    name, arguments = entry.get("name"), entry.get("arguments", {})
    text = arguments_text(arguments)
    named = name[:LONGEST_NAME] if isinstance(name, str) else ""
    if len(text) > MOST_ARGUMENTS:
        return ToolCall("", named, "{}", TOO_LONG)
    return ToolCall("", named, text)


def _bounded(calls: Sequence[ToolCall]) -> list[ToolCall]:
    """Return the first MOST_CALLS calls. If there are more, add one call, whose problem says that
    the rest is not run."""
    more = [ToolCall("", calls[MOST_CALLS].name, "{}", TOO_MANY)] if calls[MOST_CALLS:] else []
    return [*calls[:MOST_CALLS], *more]
