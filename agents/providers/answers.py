"""Reads a server's answer, which arrives in pieces or as a whole. This module finds the text of the
answer, the reason why the answer ended, and the numbers of tokens."""

from typing import Literal

from agents.providers.base import ToolCall, Usage
from agents.providers.bounds import CHARACTERS_A_TOKEN
from agents.providers.exceptions import EmptyReply, StreamBroken, UnusableReply
from agents.providers.failures import (
    Failure,
    broken_off,
    dropped,
    not_the_protocol,
    refused_or_busy,
)
from agents.providers.server_words import read_words, refusal_in, shortened
from agents.providers.subjects import Subject
from agents.providers.tool_calls import GatheredCalls

_BYTE_ORDER_MARK = "\ufeff"
_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"
# The fields whose text is never shown. The output limit counts this text as part of the reply.
_HIDDEN = ("reasoning_content", "reasoning", "reasoning_details", "refusal")
# The fields with text in a part of hidden reasoning. Other fields of a part name its kind and
# format, and do not count.
_IN_PARTS = ("text", "thinking", "summary")
_SHOWN_OF_A_REFUSAL = 300


class Answer:
    """A reader of one answer. It takes the chunks in order, or the whole answer, and checks the
    type of every value.

    A reply ends when it has more characters, hidden ones included, than its limit of tokens allows.
    The key `secret` is removed from error messages of the server. Every error in the answer is
    raised as a Failure.
    """

    def __init__(
        self, subject: Subject, output_limit: int, *, secret: str = "", has_tools: bool = False
    ) -> None:
        self._subject = subject
        self.output_limit = output_limit
        self._room = output_limit * CHARACTERS_A_TOKEN
        self._secret = secret
        self._opening = _Opening()
        # None if the request has no tools, because the model then cannot call tools.
        self._calls = GatheredCalls() if has_tools else None
        self._finish_reason = ""
        self._has_pieces = False
        self._refusal = ""
        self.has_text = False
        self.usage: Usage | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the server announced the end of the reply. The usage report may still follow."""
        return bool(self._finish_reason)

    @property
    def is_overlong(self) -> bool:
        """Whether the reply exceeds its limit. A server that ignores the limit might never stop."""
        return self._room < 0

    @property
    def was_cut(self) -> bool:
        return self._finish_reason == "length"

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the answer. The list is complete only at the end of the answer."""
        return self._calls.gathered() if self._calls else []

    def take(self, chunk: object) -> str:
        """Read a chunk, and return its text without hidden reasoning."""
        return self._take(chunk, "delta")

    def take_whole(self, completion: object) -> str:
        """Read an answer that was not streamed, and return its text."""
        text = self._take(completion, "message")
        if self._has_pieces:
            # An answer in one response cannot break off, so it counts as ended even if the finish
            # reason is missing.
            self._finish_reason = self._finish_reason or "stop"
        return text

    def end(self) -> str:
        """Return the last text of the answer, which was not shown yet because it could have been
        the opening tag of hidden reasoning. Raises Failure if the reply is incomplete or has
        neither text nor tool calls."""
        rest = "" if self.has_text else self._opening.held_text()
        has_text = self.has_text or bool(rest)
        if not self._finish_reason and has_text:
            raise broken_off(self._subject)
        if not self._finish_reason:
            raise dropped(self._subject) if self._has_pieces else not_the_protocol(self._subject)
        if not has_text and not self.tool_calls:
            is_silent = self._finish_reason == "stop" and not self._refusal
            error = (EmptyReply if is_silent else UnusableReply)(
                self._why_empty(), said=shortened(self._refusal, self._secret)
            )
            raise Failure(error)
        if self._finish_reason == "content_filter":
            raise Failure(StreamBroken(f"{self._subject} ended the reply by its content filter."))
        return rest

    def _take(self, piece: object, part: Literal["delta", "message"]) -> str:
        if refusal := refusal_in(piece):
            # A stream, and sometimes a whole answer, may have an error although its status is 200.
            if self.has_text:
                raise broken_off(self._subject, read_words(refusal).shown(self._secret))
            raise refused_or_busy(self._subject, 0, refusal, secret=self._secret)
        if usage := _field(piece, "usage"):
            self.usage = _read_usage(usage) or self.usage
        choices = _field(piece, "choices")
        if not isinstance(choices, list) or not choices:
            return ""
        said = _field(choices[0], part)
        self._has_pieces = self._has_pieces or said is not None
        self._finish_reason = self._finish_reason or _text(choices[0], "finish_reason")
        if refusal := _text(said, "refusal"):
            self._refusal = (self._refusal + refusal)[:_SHOWN_OF_A_REFUSAL]
        text = self._opening.take(self._within_limit(said))
        self.has_text = self.has_text or bool(text)
        return text

    def _within_limit(self, said: object) -> str:
        content, room = _content(said), self._room
        self._room -= len(content)
        # Most chunks have only the field for content. A search for the other fields in every chunk
        # would take most of the time.
        if isinstance(said, dict) and not (content and len(said) == 1):
            self._room -= _length_in([said.get(name) for name in _HIDDEN])
            if isinstance(parts := said.get("content"), list):
                self._room -= _length_in(parts) - len(content)
            if self._calls is not None:
                self._room -= self._calls.take(said.get("tool_calls"))
        if self._room >= 0:
            return content
        self._finish_reason = "length"
        return content[: max(room, 0)]

    def _why_empty(self) -> str:
        if self._refusal:
            return (
                "The model declined to answer. Change the words that it was asked with, or choose "
                "another model."
            )
        if self._finish_reason == "content_filter":
            return f"{self._subject} held the reply back by its content filter."
        if self.was_cut:
            return (
                f"The model used its whole limit of {self.output_limit:,} tokens before the first "
                "word, for hidden reasoning. Allow more with STORYENGINE_MAX_OUTPUT, or take a "
                "model that reasons less."
            )
        return "The model returned an empty reply."


class _Opening:
    """The start of a reply, from which white space, a byte order mark and hidden reasoning are
    removed.

    Some servers leave the hidden reasoning of a model in the reply itself, between tags at its very
    start. So the text is held back until it cannot be the opening tag any more. A reply of white
    space alone counts as empty.
    """

    def __init__(self) -> None:
        # The text that is held back. Its pieces are kept apart, because joining them again for each
        # new piece would take quadratic time.
        self._held: list[str] = []
        # The text after leading white space, as long as it may still become the opening tag.
        self._start = ""
        # The last characters of the hidden reasoning so far, because the closing tag may begin in
        # them. None if the reader is not within hidden reasoning.
        self._thoughts: str | None = None
        self._is_over = False
        self._had_thoughts = False

    def take(self, text: str) -> str:
        if self._is_over:
            return text
        if self._thoughts is None and not self._had_thoughts:
            text = self._take_start(text)
        if self._thoughts is not None:
            text = self._after_thoughts(text)
        if self._had_thoughts:
            text = text.lstrip()
        self._is_over = bool(text)
        return text

    def held_text(self) -> str:
        """Return the text that is still held back at the end of the stream, because it did not
        become an opening tag."""
        return "".join(self._held) if self._start else ""

    def _take_start(self, text: str) -> str:
        """Return the text that can be shown.

        This is all of the held text if it does not begin with the opening tag, and the text after
        the tag if it does. As long as the held text may still become the tag, return "".
        """
        if not self._start:
            text = text.removeprefix(_BYTE_ORDER_MARK)
        self._held.append(text)
        self._start += (text if self._start else text.lstrip())[: len(_THOUGHTS_BEGIN)]
        if self._start.startswith(_THOUGHTS_BEGIN):
            self._thoughts, self._start = "", ""
        elif _THOUGHTS_BEGIN.startswith(self._start):
            return ""
        held, self._held = "".join(self._held), []
        return held if self._thoughts is None else held.lstrip()[len(_THOUGHTS_BEGIN) :]

    def _after_thoughts(self, text: str) -> str:
        thoughts, end, after = f"{self._thoughts}{text}".partition(_THOUGHTS_END)
        self._had_thoughts = bool(end)
        self._thoughts = None if end else thoughts[1 - len(_THOUGHTS_END) :]
        return after


def _read_usage(usage: object) -> Usage | None:
    prompt, completion = (_count(usage, f"{kind}_tokens") for kind in ("prompt", "completion"))
    if prompt is None or completion is None:
        return None
    cached = _count(_field(usage, "prompt_tokens_details"), "cached_tokens")
    return Usage(prompt, completion, cached or 0)


def _field(holder: object, name: str) -> object:
    # A JSON object is always a dict. A check for any Mapping would take most of the time.
    return holder.get(name) if isinstance(holder, dict) else None


def _content(said: object) -> str:
    """Return the visible text. Mistral's reasoning models send the content as a list of parts, and
    some parts are hidden reasoning."""
    parts = _field(said, "content")
    if isinstance(parts, list):
        return "".join(_text(part, "text") for part in parts)
    return _text(said, "content")


def _length_in(value: object) -> int:
    """Return the number of characters in a value that is a text, a part with text, or a list of
    such values."""
    length, unread = 0, [value]
    while unread:
        match unread.pop():
            case str() as text:
                length += len(text)
            case list() as values:
                unread += values
            case dict() as part:
                unread += [part.get(name) for name in _IN_PARTS]
    return length


def _text(holder: object, name: str) -> str:
    value = _field(holder, name)
    return value if isinstance(value, str) else ""


def _count(holder: object, name: str) -> int | None:
    value = _field(holder, name)
    # The type itself is compared, because isinstance would also accept True and False.
    return value if type(value) is int and value >= 0 else None
