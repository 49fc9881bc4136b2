"""The interface of a provider. A provider takes messages, and yields text and tool calls as a
stream.

Providers know nothing about stories.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class ToolSchema:
    """The description of a tool for a model. `parameters` is the JSON schema of the tool's
    arguments, which are an object."""

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
    """A tool call as a model wrote it. The call has not been run, and its arguments have not been
    checked.

    `arguments` should be the text of a JSON object, but may be any text. If the call was not
    accepted as the server sent it, `problem` says why, and the arguments are empty.
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
    """A chat message.

    An assistant's message may have `tool_calls`. A tool's message has the result of one call.
    """

    role: Literal["system", "user", "assistant", "tool"]
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""

    def as_sent(self) -> dict[str, Any]:
        """Return the message in the form of the chat protocol. It is sent and stored in this
        form."""
        message: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [call.as_sent() for call in self.tool_calls]
        if self.tool_call_id:
            message["tool_call_id"] = self.tool_call_id
        return message


@dataclass(frozen=True)
class ModelRequest:
    """The request of one call. `max_output_tokens` includes the hidden reasoning of models."""

    model: str
    messages: tuple[Message, ...]
    max_output_tokens: int
    # The field for the limit: max_tokens, or max_completion_tokens for reasoning models.
    token_parameter: str = "max_tokens"  # noqa: S105  (the name of a field)
    # None if the model accepts no temperature, or if its default temperature is wanted.
    temperature: float | None = None
    # The value of `top_p`: the model chooses from the likeliest words, whose probabilities add up
    # to it. None means the server's default.
    top_p: float | None = None
    # The JSON schema that the reply must follow; None if the model supports no schema.
    json_schema: Mapping[str, Any] | None = None
    # True if the answer is a JSON object, and the server has refused a schema but may accept the
    # form of a JSON object.
    json_object: bool = False
    # The tools that the model may call by the tool calls of the chat protocol.
    tools: tuple[ToolSchema, ...] = ()
    # "required" if the answer must be a tool call. "" leaves the choice to the model.
    tool_choice: Literal["", "required"] = ""
    # How much a reasoning model should reason, such as "low". "" leaves the choice to the model.
    reasoning_effort: str = ""
    # False if the model can send its answer only as a whole.
    streams: bool = True
    # True if the answer continues a text, so that blank lines at its front are kept.
    continues: bool = False
    # True if no user waits for the answer. The server may then serve replies first.
    is_background: bool = False
    # The seconds before each further try of a call that failed before any text arrived. If this is
    # empty, the provider decides how often it tries and how long it waits.
    retry_waits: tuple[float, ...] = ()
    # A key that is the same for all requests that begin with the same text. The text cannot be
    # found out from the key.
    cache_key: str = ""
    # Further fields of the request body, such as llama.cpp's sampling settings.
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    # The fields that the server has refused before. They are not sent.
    left_out: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Usage:
    """The numbers of tokens that the provider reports."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True)
class TextDelta:
    """The next piece of text of the reply. It is never empty."""

    text: str


@dataclass(frozen=True)
class TakenOff:
    """The next piece of the answer that is no word of the reply: hidden reasoning, a mark of a chat
    template, or text behind such a mark."""

    text: str


@dataclass(frozen=True)
class Restart:
    """All text so far was hidden reasoning, and the reply only begins now. If `is_next_try`, the
    call is made again, and everything so far comes again."""

    is_next_try: bool = False


@dataclass(frozen=True)
class Finished:
    """The end of a reply. `was_cut` is True if the output limit ended the reply. `usage` is None if
    the server reported no numbers of tokens. `refused` are the fields that the server refused in
    this call, which was then made without them."""

    was_cut: bool = False
    usage: Usage | None = None
    refused: frozenset[str] = frozenset()


StreamPart = TextDelta | TakenOff | Restart | ToolCall | Finished


class Provider(ABC):
    """The code that calls one server of models."""

    #: The short name of the provider in records, such as "openai" or "embedded".
    name: str
    # : The host that receives the texts, for the GM's consent; "" if nothing leaves the machine.
    host: str

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Yield the parts of the answer as `Answer` reads them, then each ToolCall, and last
        exactly one Finished. Every provider reads its answers by
        `agents.llm.providers.answers.answers`.

        A reply without text has at least one tool call. A reply has tool calls only if the request
        has tools. The length of the answer is bounded even if the server ignores the limit of the
        request. If a call of the server fails before anything was yielded, the provider may repeat
        this call. Raises ProviderError.
        """
