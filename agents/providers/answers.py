"""Reading one streamed answer: its text, its end, and what it cost."""

from typing import Any

from agents.providers.base import Usage
from agents.providers.exceptions import StreamBroken, UnusableReply
from agents.providers.failures import Failure, broken_off, dropped, not_the_protocol

_THOUGHTS_BEGIN, _THOUGHTS_END = "<think>", "</think>"


class Answer:
    """Takes the chunks in order. Nothing in them is trusted to have the right type."""

    def __init__(self, subject: str, output_limit: int) -> None:
        self._subject = subject
        self._output_limit = output_limit
        self._opening = _Opening()
        self._finish_reason = ""
        self._has_chunks = False
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
        self.usage = _read_usage(getattr(chunk, "usage", None)) or self.usage
        choices = getattr(chunk, "choices", None)
        if not isinstance(choices, list) or not choices:
            return ""
        delta = getattr(choices[0], "delta", None)
        self._has_chunks = self._has_chunks or delta is not None
        self._finish_reason = self._finish_reason or _text_of(choices[0], "finish_reason")
        self._refusal += _text_of(delta, "refusal")
        text = self._opening.take(_text_of(delta, "content"))
        self.has_text = self.has_text or bool(text)
        return text

    def end(self) -> str:
        """Text that was held back to the end; raises Failure when this was no whole reply."""
        rest = "" if self.has_text else self._opening.held_text()
        has_text = self.has_text or bool(rest)
        if not self._finish_reason and has_text:
            raise broken_off(self._subject)
        if not self._finish_reason:
            raise dropped(self._subject) if self._has_chunks else not_the_protocol(self._subject)
        if not has_text:
            raise Failure(UnusableReply(self._why_empty()))
        if self._finish_reason == "content_filter":
            raise Failure(StreamBroken(f"{self._subject} ended the reply by its content filter."))
        return rest

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

    def take(self, text: str) -> str:
        if self._is_over:
            return text
        self._held += text
        if not self._is_decided():
            return ""
        self._is_over = True
        return self._held

    def held_text(self) -> str:
        """At the end of the stream: what turned out to be text after all, if it is any."""
        is_text = self._held.strip() and not self._held.lstrip().startswith(_THOUGHTS_BEGIN)
        return self._held if is_text else ""

    def _is_decided(self) -> bool:
        start = self._held.lstrip()
        if start.startswith(_THOUGHTS_BEGIN):
            _, end, after = start.partition(_THOUGHTS_END)
            if end:
                self._held = after.lstrip()
            return bool(end and self._held)
        return bool(start) and not _THOUGHTS_BEGIN.startswith(start)


def _read_usage(usage: object) -> Usage | None:
    prompt, completion = (_count_of(usage, f"{kind}_tokens") for kind in ("prompt", "completion"))
    if prompt is None or completion is None:
        return None
    cached = _count_of(getattr(usage, "prompt_tokens_details", None), "cached_tokens")
    return Usage(prompt, completion, cached or 0)


def _text_of(holder: Any, name: str) -> str:
    value = getattr(holder, name, None)
    return value if isinstance(value, str) else ""


def _count_of(holder: Any, name: str) -> int | None:
    value = getattr(holder, name, None)
    return value if isinstance(value, int) and value >= 0 else None
