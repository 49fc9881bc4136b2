"""What a provider is: messages in, a stream of text out. It knows nothing of stories."""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True)
class Message:
    role: Literal["system", "user", "assistant"]
    content: str


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


StreamPart = TextDelta | Finished


class Provider(ABC):
    """A server of models."""

    #: Short name for records, such as "openai" or "embedded".
    name: str
    #: The host that texts are sent to, for consent; "" when nothing leaves the process.
    host: str

    @abstractmethod
    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        """Yield TextDelta parts, then exactly one Finished.

        What a server sends is bounded, whether it keeps to the request's limit or not.
        Raises ProviderError; retries are made inside, only while nothing has been yielded.
        """
