"""Reading one answer, in pieces or whole: its text, its end, and what it cost."""

from typing import Literal

from agents.providers.base import Usage
from agents.providers.exceptions import StreamBroken, UnusableReply
from agents.providers.failures import Failure, broken_off, dropped, not_the_protocol

_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"


class Answer:
    """Takes the chunks in order, or the whole; trusts nothing in them to have the right type."""

    def __init__(self, subject: str, output_limit: int) -> None:
        self._subject = subject
        self._output_limit = output_limit
        self._opening = _Opening()
        self._finish_reason = ""
        self._has_pieces = False
        self._refusal = ""
        self.has_text = False
        self.usage: Usage | None = None

    @property
    def is_complete(self) -> bool:
        """The reply's end was announced; only the usage report may still come."""
        return bool(self._finish_reason)

    @property
    def was_cut(self) -> bool:
        return self._finish_reason == "length"

    def take(self, chunk: object) -> str:
        """The text to show now; fields with hidden reasoning are passed over."""
        return self._take(chunk, "delta")

    def take_whole(self, completion: object) -> str:
        """The text of an answer that was not streamed."""
        text = self._take(completion, "message")
        if self._has_pieces:
            # It came in one response, so that a missing reason tells of no break.
            self._finish_reason = self._finish_reason or "stop"
        return text

    def end(self) -> str:
        """Text that was held back to the end; raises Failure when this was no whole reply."""
        rest = "" if self.has_text else self._opening.held_text()
        has_text = self.has_text or bool(rest)
        if not self._finish_reason and has_text:
            raise broken_off(self._subject)
        if not self._finish_reason:
            raise dropped(self._subject) if self._has_pieces else not_the_protocol(self._subject)
        if not has_text:
            raise Failure(UnusableReply(self._why_empty()))
        if self._finish_reason == "content_filter":
            raise Failure(StreamBroken(f"{self._subject} ended the reply by its content filter."))
        return rest

    def _take(self, piece: object, part: Literal["delta", "message"]) -> str:
        if usage := _field(piece, "usage"):
            self.usage = _read_usage(usage) or self.usage
        choices = _field(piece, "choices")
        if not isinstance(choices, list) or not choices:
            return ""
        said = _field(choices[0], part)
        self._has_pieces = self._has_pieces or said is not None
        self._finish_reason = self._finish_reason or _text(choices[0], "finish_reason")
        self._refusal += _text(said, "refusal")
        text = self._opening.take(_content(said))
        self.has_text = self.has_text or bool(text)
        return text

    def _why_empty(self) -> str:
        if self._refusal:
            return f"The model declined to answer: {self._refusal[:300]}"
        if self._finish_reason == "content_filter":
            return f"{self._subject} held the reply back by its content filter."
        if self.was_cut:
            return (
                f"The model used its whole limit of {self._output_limit:,} tokens before the first "
                "word, for hidden reasoning. Allow more with STORYENGINE_MAX_OUTPUT, or take a "
                "model that reasons less."
            )
        return "The model returned an empty reply."


class _Opening:
    """Holds the start of a reply back until it is text.

    White space alone is no reply, and some servers leave the hidden reasoning of a model in the
    reply itself, between tags at its very start.
    """

    def __init__(self) -> None:
        self._held = ""
        self._is_over = False
        self._had_thoughts = False

    def take(self, text: str) -> str:
        if self._is_over:
            return text
        self._held += text
        self._drop_thoughts()
        start = self._held.lstrip()
        self._is_over = bool(start) and not self._may_be_thoughts(start)
        return self._held if self._is_over else ""

    def held_text(self) -> str:
        """At the end of the stream: what turned out to be text after all, if it is any."""
        start = self._held.lstrip()
        is_text = start and not start.startswith(_THOUGHTS_BEGIN)
        return self._held if is_text else ""

    def _drop_thoughts(self) -> None:
        thoughts, end, after = self._held.partition(_THOUGHTS_END)
        if end and thoughts.lstrip().startswith(_THOUGHTS_BEGIN):
            self._held = after
            self._had_thoughts = True
        if self._had_thoughts:
            self._held = self._held.lstrip()

    def _may_be_thoughts(self, start: str) -> bool:
        if self._had_thoughts:
            return False
        return start.startswith(_THOUGHTS_BEGIN) or _THOUGHTS_BEGIN.startswith(start)


def _read_usage(usage: object) -> Usage | None:
    prompt, completion = (_count(usage, f"{kind}_tokens") for kind in ("prompt", "completion"))
    if prompt is None or completion is None:
        return None
    cached = _count(_field(usage, "prompt_tokens_details"), "cached_tokens")
    return Usage(prompt, completion, cached or 0)


def _field(holder: object, name: str) -> object:
    # What JSON makes: asking for any mapping would take longer than the rest of a chunk.
    return holder.get(name) if isinstance(holder, dict) else None


def _content(said: object) -> str:
    """What was said aloud: Mistral's models that think say it in parts, with their thoughts."""
    parts = _field(said, "content")
    if isinstance(parts, list):
        return "".join(_text(part, "text") for part in parts)
    return _text(said, "content")


def _text(holder: object, name: str) -> str:
    value = _field(holder, name)
    return value if isinstance(value, str) else ""


def _count(holder: object, name: str) -> int | None:
    value = _field(holder, name)
    # No bool, which is an int too.
    return value if type(value) is int and value >= 0 else None
