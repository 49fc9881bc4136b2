"""What a provider is: messages in, a stream of text and of tool calls out. It knows no stories."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class ToolSchema:
    """A tool as a model is told of it; `parameters` is the JSON schema of an object."""

    name: str
    description: str
    parameters: Mapping[str, Any]

    def as_sent(self) -> dict[str, Any]:
        function = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": function}


@dataclass(frozen=True)
class ToolCall:
    """A call that a model has written; nobody has run it or looked at its arguments.

    `arguments` should be the text of a JSON object, but may be anything. `problem` says why a call
    was not taken as it came, and it then has no arguments.
    """

    call_id: str
    name: str
    arguments: str
    problem: str = ""

    def as_sent(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.call_id, "type": "function", "function": function}


@dataclass(frozen=True)
class Message:
    """`tool_calls` are what an assistant's message called; a tool's message answers one of them."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def as_sent(self) -> dict[str, Any]:
        """As the chat protocol has it, and as it is recorded."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [call.as_sent() for call in self.tool_calls]
        if self.tool_call_id:
            message["tool_call_id"] = self.tool_call_id
        return message


@dataclass(frozen=True)
class ModelRequest:
    """One call. `max_output_tokens` includes the hidden reasoning of models that reason."""

    model: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    # max_tokens, or max_completion_tokens as reasoning models call it.
    token_parameter: str = "max_tokens"  # noqa: S105  (the name of a field)
    # None: the model takes no temperature, or its default is wanted.
    temperature: float | None = None
    # A JSON schema that the reply must follow, where the model honours one.
    json_schema: Mapping[str, Any] | None = None
    # What the model may call by the server's own tool calls.
    tools: tuple[ToolSchema, ...] = ()
    # How long a model that reasons is to think, such as "low"; "" leaves it to the model.
    reasoning_effort: str = ""
    # False: the server sends an answer only as a whole.
    streams: bool = True
    # Play goes on meanwhile: a reply may go first.
    is_background: bool = False
    # The same for calls whose prompts begin alike; tells nothing of what is in them.
    cache_key: str = ""
    # Further fields of the request body, such as llama.cpp's sampling settings.
    extra_body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """Tokens as the provider reports them."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class TextDelta:
    """The next piece of the reply; never empty."""

    text: str


@dataclass(frozen=True)
class Finished:
    """The end of a reply; `was_cut` when the output limit ended it. Usage is None if unreported."""

    was_cut: bool = False
    usage: Usage | None = None


StreamPart = TextDelta | ToolCall | Finished


class Provider(ABC):
    """A server of models."""

    #: Short name for records, such as "openai" or "embedded".
    name: str
    #: The host that texts are sent to, for consent; "" when nothing leaves the process.
    host: str

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Yield TextDelta parts, then each ToolCall, then exactly one Finished.

        A reply without text has at least one call. Calls come only where the request has tools.
        What a server sends is bounded, whether it keeps to the request's limit or not.
        Raises ProviderError; retries are made inside, only while nothing has been yielded.
        """
