"""A call that the fake model server answers, and how fast."""

import re
import time
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Timing:
    first_token_ms: float = 0.0
    tokens_per_second: float = 10_000.0


@dataclass
class ServedCall:
    """A call of the chat API, and the answer to this call."""

    body: dict[str, Any]
    agent: int
    messages: list[str]
    fault: str
    timing: Timing
    # The value of time.perf_counter when the request arrived.
    received_at: float
    first_token_ms: float | None = None
    words: list[str] = field(default_factory=list)
    tool_calls: tuple[dict[str, Any], ...] = ()
    was_limited: bool = False
    client_left: bool = False

    @property
    def model(self) -> str:
        return str(self.body.get("model", ""))

    @property
    def prompt(self) -> str:
        return "\n".join(self.messages)

    def take_words(self, text: str) -> None:
        words = re.findall(r"\S+\s*|\s+", text)
        limit = self.body.get("max_completion_tokens") or self.body.get("max_tokens")
        self.was_limited = limit is not None and len(words) > int(limit)
        self.words = words[: int(limit)] if self.was_limited and limit else words

    def seconds_until(self, word: int) -> float:
        """Return the seconds until the server should send the word with this number."""
        due = self.timing.first_token_ms / 1_000 + word / self.timing.tokens_per_second
        return max(self.received_at + due - time.perf_counter(), 0.0)

    def elapsed_ms(self) -> float:
        return round((time.perf_counter() - self.received_at) * 1_000, 2)

    def usage(self) -> dict[str, int]:
        tokens = {"prompt_tokens": len(self.prompt) // 4, "completion_tokens": len(self.words)}
        return {**tokens, "total_tokens": sum(tokens.values())}

    def record(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "model": self.model,
            "stream": bool(self.body.get("stream")),
            "format": (self.body.get("response_format") or {}).get("type"),
            "max_tokens": self.body.get("max_completion_tokens") or self.body.get("max_tokens"),
            "fault": self.fault,
            "client_left": self.client_left,
            "reply_words": len(self.words),
            "first_token_ms": self.first_token_ms,
            "ms": self.elapsed_ms(),
            "at": time.time(),
        }
