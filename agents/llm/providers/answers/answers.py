"""Reads a server's answer, which arrives in pieces or as a whole. This module finds the text of the
answer, the reason why the answer ended, and the numbers of tokens."""

from collections.abc import Iterable, Sequence

from agents.llm.providers.answers.answer_text import AnswerText
from agents.llm.providers.answers.endings import FAILURES, Ending, ending_of
from agents.llm.providers.answers.tool_calls import GatheredCalls
from agents.llm.providers.base import StreamPart, TakenOff, ToolCall, Usage
from agents.llm.providers.bounds import CHARACTERS_A_TOKEN
from agents.llm.providers.failures.call_errors import (
    EmptyReply,
    OnlyThoughts,
    ProviderBusy,
    StreamBroken,
    UnusableReply,
)
from agents.llm.providers.failures.failures import (
    Failure,
    broken_off,
    dropped,
    not_the_protocol,
    refused_or_busy,
)
from agents.llm.providers.failures.server_words import read_words, refusal_in, shortened
from agents.llm.providers.failures.subjects import Subject

# The fields with hidden reasoning. They may repeat each other, so only the first one is kept.
_REASONING = (
    *("reasoning_content", "reasoning", "reasoning_details", "reasoning_text", "thinking"),
    *("thinking_content", "thinking_blocks", "thought", "thoughts"),
)
# The fields whose text is never shown. The output limit counts this text as part of the reply.
_HIDDEN = (*_REASONING, "refusal")
# The fields with text in a part of hidden reasoning. Other fields of a part name its kind and
# format, and do not count.
_IN_PARTS = ("text", "thinking", "summary", "reasoning", "reasoning_content", "content", "value")
# The beginnings of the kinds of parts with hidden reasoning.
_THOUGHT_KINDS = ("think", "thought", "reason", "redacted")
_SHOWN_OF_A_REFUSAL = 300
# At most this many bytes of an answer are kept as long as no part of a reply is found in it.
_MOST_UNREAD = 4_000
# A shorter message of a stream may be the same as the end of the text by chance.
_LEAST_REPEATED = 12


class Answer:
    """A reader of one answer. It takes the chunks in order, or the whole answer, and checks the
    type of every value. Every answer of every provider passes through such a reader.

    A reply ends when it has more characters, hidden ones included, than its limit of tokens allows.
    The key `secret` is removed from error messages of the server. Every error in the answer is
    raised as a Failure. For `text`, see AnswerText.
    """

    def __init__(
        self,
        subject: Subject,
        output_limit: int,
        *,
        secret: str = "",
        has_tools: bool = False,
        text: AnswerText | None = None,
    ) -> None:
        self._subject = subject
        self.output_limit = output_limit
        self._room = output_limit * CHARACTERS_A_TOKEN
        self._secret = secret
        self.text = text or AnswerText()
        # None if the request has no tools, because the model then cannot call tools.
        self._calls = GatheredCalls() if has_tools else None
        self._ending: Ending | None = None
        self._has_pieces = False
        self._unread = b""
        # The text as the server sent it. A message that repeats the whole text is recognised by it.
        self._sent: list[str] = []
        self._has_reasoned = False
        self._refusal = ""
        self.usage: Usage | None = None

    @property
    def has_text(self) -> bool:
        return self.text.has_text

    @property
    def is_complete(self) -> bool:
        """Whether the server announced the end of the reply. The usage report may still follow."""
        return self._ending is not None

    @property
    def is_overlong(self) -> bool:
        """Whether the reply exceeds its limit. A server that ignores the limit might never stop."""
        return self._room < 0

    @property
    def was_cut(self) -> bool:
        return self._ending == Ending.CUT and not self.text.has_ended

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The tool calls of the answer. The list is complete only at the end of the answer."""
        return self._calls.gathered() if self._calls else []

    def take(self, chunk: object) -> Sequence[StreamPart]:
        """Read a chunk of a stream, and return the parts that are clear by now."""
        return self._take(chunk)

    def take_whole(self, completion: object) -> Sequence[StreamPart]:
        """Read an answer that was not streamed."""
        parts = self._take(completion)
        # An answer in one response cannot break off, so it counts as ended even if the reason is
        # missing.
        self.take_end_mark()
        return parts

    def take_end_mark(self) -> None:
        """Note that the server has marked the end, whether it gave a reason or not."""
        if self._has_pieces:
            self._ending = self._ending or Ending.WHOLE

    def note(self, data: bytes) -> None:
        """Keep the beginning of the data. It is shown if no part of a reply comes."""
        if not self._has_pieces and len(self._unread) < _MOST_UNREAD:
            self._unread += data[:_MOST_UNREAD]

    def not_the_protocol(self) -> Failure:
        return not_the_protocol(self._subject, read_words(self._unread).shown(self._secret))

    def rest(self) -> Sequence[StreamPart]:
        """Return the last parts of the answer, which were held back until now, because nothing
        follows them."""
        return self.text.end(is_whole=self._ending == Ending.WHOLE)

    def check(self) -> None:
        """Raise Failure if the reply is incomplete or has neither text nor tool calls."""
        if self._ending is None and self.has_text:
            raise broken_off(self._subject)
        if self._ending is None:
            raise dropped(self._subject) if self._has_pieces else self.not_the_protocol()
        if self._ending in FAILURES:
            raise self._failure_at_end(self._ending)
        if not self.has_text and not self.tool_calls:
            raise Failure(self._error_without_text())

    def _take(self, piece: object) -> Sequence[StreamPart]:
        if isinstance(piece, list) and len(piece) == 1:
            piece = piece[0]
        if refusal := refusal_in(piece):
            # A stream, and sometimes a whole answer, may have an error although its status is 200.
            raise self._refused(refusal)
        if usage := _field(piece, "usage"):
            self.usage = _read_usage(usage) or self.usage
        choices = _choices_in(piece)
        if not choices:
            return ()
        choice = choices[0] if len(choices) == 1 else _first_choice(choices)
        # Only the first choice is the reply. A server may send further choices, although the
        # request does not ask for them.
        if _field(choice, "index") not in (0, "0", None):
            return ()
        said, is_message = _said_in(choice)
        self._has_pieces = self._has_pieces or said is not None
        self._ending = self._ending or ending_of(choice)
        plain = said.get("content") if isinstance(said, dict) and len(said) == 1 else None
        if isinstance(plain, str) and not is_message and len(plain) <= self._room:
            # Most chunks have only this field. A search for the other fields would take most of the
            # time.
            self._room -= len(plain)
            self._sent.append(plain)
            return self.text.take(plain)
        if refusal := _text(said, "refusal"):
            self._refusal = (self._refusal + refusal)[:_SHOWN_OF_A_REFUSAL]
        if is_message and (self._sent or self._has_calls):
            said = self._without_repetition(said)
        parts = self._besides(said)
        content = self._within_limit(said)
        if not content:
            return parts
        self._sent.append(content)
        told = self.text.take(content)
        return [*parts, *told] if parts else told

    @property
    def _has_calls(self) -> bool:
        return bool(self._calls and self._calls.has_any)

    def _without_repetition(self, message: object) -> object:
        """Return the new part of a message in a stream, because the message may repeat all earlier
        text."""
        content, sent = _content(message), "".join(self._sent)
        self._sent = [sent]
        # A short message that equals all the text before it may also be the next piece, in a stream
        # that calls its pieces messages: for example the second of three full stops.
        is_piece = content == sent and len(sent) < _LEAST_REPEATED and self._ending is None
        rest = content if is_piece else content.removeprefix(sent)
        # A message with the whole text may lack the hidden reasoning and the space around the text.
        words = content.strip()
        if len(words) >= _LEAST_REPEATED and sent.rstrip().endswith(words):
            rest = ""
        calls = None if self._has_calls else _field(message, "tool_calls")
        return {"content": rest, "tool_calls": calls}

    def _besides(self, said: object) -> list[StreamPart]:
        """Return the hidden reasoning that has fields of its own, and the pieces of tool calls."""
        if not isinstance(said, dict):
            return []
        thoughts = next((text for name in _REASONING if (text := _all_text(said.get(name)))), "")
        thoughts += "".join(_all_text(one) for one in _parts_in(said) if _is_thought(one))
        self._has_reasoned = self._has_reasoned or bool(thoughts)
        found: list[StreamPart] = [TakenOff(thoughts)] if thoughts else []
        if self._calls is not None and (fragments := _fragments_in(said)):
            self._room -= self._calls.take(fragments)
        return found

    def _within_limit(self, said: object) -> str:
        content, room = _content(said), self._room
        self._room -= len(content)
        if isinstance(said, dict) and not (content and len(said) == 1):
            self._room -= _length_in([said.get(name) for name in _HIDDEN])
            self._room -= _length_in(_parts_in(said)) - len(content)
        if self._room >= 0:
            return content
        self._ending = Ending.CUT
        return content[: max(room, 0)]

    def _refused(self, refusal: object) -> Failure:
        if self.has_text:
            return broken_off(self._subject, read_words(refusal).shown(self._secret))
        return refused_or_busy(self._subject, 0, refusal, secret=self._secret)

    def _failure_at_end(self, ending: Ending) -> Failure:
        """Return the failure if the server's reason for the end says that the reply is not
        complete."""
        has_text = self.has_text
        match ending:
            case Ending.FILTERED if has_text:
                message = f"{self._subject} ended the reply by its content filter."
            case Ending.FILTERED:
                message = f"{self._subject} held the reply back by its content filter."
            case Ending.OUT_OF_ROOM:
                message = f"{self._subject} ran out of room for its work and ended the reply."
            case _:
                message = f"{self._subject} ended the reply because of an error of its own."
        if has_text:
            return Failure(StreamBroken(message))
        if ending == Ending.FILTERED:
            return Failure(UnusableReply(message))
        return Failure(ProviderBusy(f"{message} Try again in a moment."), is_passing=True)

    def _error_without_text(self) -> UnusableReply:
        has_thoughts = self._has_reasoned or self.text.had_thoughts
        if not self._refusal and (self.was_cut or has_thoughts):
            return OnlyThoughts(self._why_only_thoughts())
        is_silent = self._ending == Ending.WHOLE and not self._refusal
        kind = EmptyReply if is_silent else UnusableReply
        return kind(self._why_empty(), said=shortened(self._refusal, self._secret))

    def _why_only_thoughts(self) -> str:
        if self.was_cut:
            return (
                f"The model only thought: it used its whole limit of {self.output_limit:,} tokens "
                "before the first word, for hidden reasoning. Allow more with "
                "STORYENGINE_MAX_OUTPUT, or take a model that reasons less."
            )
        return (
            "The model only thought, and ended before the first word of a reply. Try again, or "
            "take a model that reasons less."
        )

    def _why_empty(self) -> str:
        if self._refusal:
            return (
                "The model declined to answer. Change the words that it was asked with, or choose "
                "another model."
            )
        return "The model returned an empty reply."


def _read_usage(usage: object) -> Usage | None:
    prompt, completion = (_count(usage, f"{kind}_tokens") for kind in ("prompt", "completion"))
    if prompt is None or completion is None:
        return None
    cached = _count(_field(usage, "prompt_tokens_details"), "cached_tokens")
    return Usage(prompt, completion, cached or 0)


def _choices_in(piece: object) -> list[object]:
    choices = _field(piece, "choices")
    if choices is None and isinstance(_field(piece, "message"), dict):
        # Ollama's own protocol has the message alone.
        return [piece]
    return choices if isinstance(choices, list) else []


def _first_choice(choices: Iterable[object]) -> object:
    return min(choices, key=lambda one: _count(one, "index") or 0)


def _fragments_in(said: dict[str, object]) -> object:
    # The older protocol has this field, with a single tool call.
    called = said.get("function_call")
    return said.get("tool_calls") or ([{"index": 0, "function": called}] if called else None)


def _said_in(choice: object) -> tuple[object, bool]:
    """Return the part of the reply in a choice, and whether this part is a whole message.

    A stream has pieces ("delta"). Some gateways send the message instead, or at the end of the
    pieces. Servers of the older protocol for texts send a text.
    """
    if said := _field(choice, "delta"):
        return said, False
    message = _field(choice, "message")
    if message is not None:
        return message, True
    if text := _text(choice, "text"):
        return {"content": text}, False
    return _field(choice, "delta"), False


def _field(holder: object, name: str) -> object:
    # A JSON object is always a dict. A check for any Mapping would take most of the time.
    return holder.get(name) if isinstance(holder, dict) else None


def _content(said: object) -> str:
    """Return the visible text. Some servers send the content as a list of parts, and some parts are
    hidden reasoning."""
    if isinstance(text := _field(said, "content"), str) and len(said) == 1:  # type: ignore[arg-type]
        return text
    return "".join(_visible_text(one) for one in _parts_in(said) if not _is_thought(one))


def _parts_in(said: object) -> list[object]:
    """Return the parts of the content. The whole content is a thought if the message says so."""
    if isinstance(said, str):
        return [said]
    content = _field(said, "content")
    parts = content if isinstance(content, list) else [content] if content else []
    google = _field(_field(said, "extra_content"), "google")
    if True in (_field(said, "thought"), _field(google, "thought")):
        return [{"thought": True, "content": parts}]
    return parts


def _is_thought(part: object) -> bool:
    kind = _text(part, "type").casefold()
    return _field(part, "thought") is True or kind.startswith(_THOUGHT_KINDS)


def _visible_text(part: object) -> str:
    if isinstance(part, str):
        return part
    return _text(part, "text") or _text(_field(part, "text"), "value")


def _length_in(value: object) -> int:
    return sum(map(len, _texts_in(value)))


def _all_text(value: object) -> str:
    return "".join(_texts_in(value)) if value else ""


def _texts_in(value: object) -> list[str]:
    """Return the texts in a value that is a text, a part with text, or a list of such values."""
    texts: list[str] = []
    unread = [value]
    while unread:
        match unread.pop():
            case str() as text:
                texts.append(text)
            case list() as values:
                unread += reversed(values)
            case dict() as part:
                unread += [part.get(name) for name in reversed(_IN_PARTS)]
    return texts


def _text(holder: object, name: str) -> str:
    value = _field(holder, name)
    return value if isinstance(value, str) else ""


def _count(holder: object, name: str) -> int | None:
    value = _field(holder, name)
    # The type itself is compared, because isinstance would also accept True and False.
    return value if type(value) is int and value >= 0 else None
