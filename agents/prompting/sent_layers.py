"""A request as it is sent: an ordered list of layers, which are joined to messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from agents.llm.providers.base import Message, ToolCall

Role = Literal["system", "user", "assistant", "tool"]
# The separator between the parts of most layers, and between the layers of one message.
BLANK_LINE = "\n\n"


@dataclass(frozen=True)
class SentLayer:
    """One layer of a request that has been fitted into the window.

    `parts` are the texts of the layer in their order. A layer that was dropped has no parts.
    `kept`, `shortened` and `dropped` count the pieces of the layer, and `reason` says why the layer
    was trimmed. `left_out` names the dropped pieces of memory and of the transcript by their blocks
    and their places in these, such as "Prompts 1-7: event 1, deed 2". `record` says in a line for
    each text that the layer could have had why it is told or not. A layer without a `name` is a
    message whose layers are not known.
    """

    name: str
    parts: tuple[str, ...]
    role: Role = "user"
    separator: str = BLANK_LINE
    has_heading: bool = True
    tokens: int = 0
    kept: int = 1
    shortened: int = 0
    dropped: int = 0
    reason: str = ""
    # The tool calls in a message of the assistant, in the form of the server's protocol. The next
    # field is used in a message of a tool: it is the id of the call whose result the message has.
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""
    left_out: tuple[str, ...] = ()
    record: tuple[str, ...] = ()

    @cached_property
    def body(self) -> str:
        return self.separator.join(self.parts)

    @property
    def text(self) -> str:
        return with_heading(self.name, self.body) if self.has_heading and self.parts else self.body

    @property
    def characters(self) -> int:
        return len(self.text)

    @property
    def pieces(self) -> int:
        return self.kept + self.shortened + self.dropped

    @property
    def was_trimmed(self) -> bool:
        return bool(self.shortened or self.dropped)


def with_heading(name: str, body: str) -> str:
    return f"## {name}\n{body}"


def join_layers(layers: Sequence[SentLayer]) -> tuple[Message, ...]:
    """Join the layers to messages.

    Neighbouring layers with the same role become one message, because some chat templates want
    roles to alternate.
    """
    messages: list[Message] = []
    for layer in layers:
        is_own = bool(layer.tool_calls or layer.tool_call_id)
        if not (layer.parts or is_own):
            continue
        content = layer.text
        if messages and messages[-1].role == layer.role and not is_own:
            content = f"{messages.pop().content}{BLANK_LINE}{content}"
        messages.append(Message(layer.role, content, layer.tool_calls, layer.tool_call_id))
    return tuple(messages)


def shared_characters(messages: Sequence[Message], earlier: Sequence[Message]) -> int:
    """Return how many characters at the start are the same in both requests."""
    shared = 0
    for message, before in zip(messages, earlier, strict=False):
        if message.role != before.role:
            break
        shared += _common_start(message.content, before.content)
        if message.content != before.content:
            break
    return shared


def characters_of(messages: Sequence[Message]) -> int:
    return sum(len(message.content) for message in messages)


def _common_start(text: str, other: str) -> int:
    pairs = enumerate(zip(text, other, strict=False))
    shorter = min(len(text), len(other))
    return next((at for at, (one, two) in pairs if one != two), shorter)
