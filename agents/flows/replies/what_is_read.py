"""Says what the model reads before it answers a prompt, for the page that waits for the reply."""

from dataclasses import dataclass

from agents.flows.replies.composing import compose_reply
from agents.prompting.layers import Layer
from sessions.exceptions import ChapterError
from sessions.language.words import count_words
from sessions.layer_words import layer_in_words
from sessions.models import Attempt

# The layers that the page names. The page does not name any other layer, but counts its words.
_NAMED = (
    "AGENT_IDENTITY",
    "STRUCTURED_MEMORY",
    "RECENT_CONTEXT",
    "LAST_BEATS",
    "LATEST_TURNS",
    "USER_PROMPT",
    "PLAYERS_WORDS",
)


@dataclass(frozen=True)
class WhatIsRead:
    """The size and the contents of a request. `words` is the number of words of the whole request.
    `parts` has the names of its layers in the words of the page."""

    words: int
    parts: str


def what_is_read(attempt: Attempt) -> WhatIsRead | None:
    """Return the size and the contents of this attempt's request, or None if the request cannot be
    composed."""
    try:
        layers = compose_reply(attempt)
    except ChapterError:
        return None
    named = [layer_in_words(layer.name) for layer in layers if layer.name in _NAMED]
    *others, last = named or ["the request"]
    parts = f"{', '.join(others)} and {last}" if others else last
    return WhatIsRead(sum(map(_count_words, layers)), parts)


def _count_words(layer: Layer) -> int:
    return sum(count_words(piece.text) for piece in layer.pieces)
