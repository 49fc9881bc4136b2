"""Makes the calls of models: checks and sends each call, and validates the reply.

No other module calls a model, except for the test of a model (model_test.py).
"""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from agents.calling.admission import admit, check_rate, give_back
from agents.calling.consent import check_host
from agents.calling.model_access import read_model
from agents.calling.prepared_calls import Compose, PreparedCall, prepare_call
from agents.calling.records.recording import Outcome, recorded
from agents.calling.spending import check_budget, check_price
from agents.llm.providers import embedded_provider
from agents.llm.providers.base import Finished, Restart, TextDelta, ToolCall
from agents.llm.providers.failures.call_errors import EmptyReply, FieldRefused, UnusableReply
from agents.prompting.agent import Agent
from agents.prompting.forms.tool_answers import AnswerEnd, AnswerReader
from agents.running.database import in_database
from sessions.exceptions import WrongState

logger = logging.getLogger(__name__)

ONLY_CALLS = (
    "The model wrote only a call of a tool, and no words. Nothing of it was taken. Your prompt is "
    "kept; try again, or choose another model."
)

Answered = TypeVar("Answered")
OnText = Callable[[str], None]
OnRestart = Callable[[], None]
IsEnough = Callable[[str], bool]


# A reply has to grow by this fraction before `is_enough` is called again. If it were called for
# each piece, the time would grow with the square of the reply's length.
_GROWTH = 0.01
# The forms of an answer. A server may refuse each of them: tools, a schema, an object, and words.
_MOST_FORMS = 4


@dataclass(frozen=True)
class Reply:
    """The text that a model wrote, without tool calls if the call was given a reader. `was_cut` is
    True if the output limit or the caller ended it."""

    text: str
    was_cut: bool
    # The tool calls in the form of the server's protocol, or else in the text. None of them has
    # been run.
    tool_calls: tuple[ToolCall, ...] = ()
    # The text before tool calls were taken out of it, and the reason why a part of it could not be
    # read (`AnswerEnd.problem`).
    written: str = ""
    problem: str = ""


Validate = Callable[[Reply], None]


async def call_model(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    *,
    json_schema: Mapping[str, Any] | None = None,
    on_text: OnText | None = None,
    on_restart: OnRestart | None = None,
    is_enough: IsEnough | None = None,
    validate: Validate | None = None,
    output_tokens: int | None = None,
    is_prose: bool = False,
    job_id: uuid.UUID | None = None,
) -> Reply:
    """Check, prepare and count a call, and make it; see `let_through`, `make_call` and, for an
    answer that is read by people, `make_prose_call`."""

    def prepare() -> PreparedCall:
        return prepare_call(
            read_model(agent),
            session_id,
            compose,
            json_schema=json_schema,
            output_tokens=output_tokens,
            job_id=job_id,
        )

    async def ask() -> Reply:
        call = await let_call_through(session_id, prepare)
        make = make_prose_call if is_prose else make_call
        return await make(
            call, on_text=on_text, on_restart=on_restart, is_enough=is_enough, validate=validate
        )

    return await in_accepted_form(ask)


async def in_accepted_form(ask: Callable[[], Awaitable[Answered]]) -> Answered:
    """Ask, and ask again each time that the server refuses a field that shapes the answer.

    `ask` has to prepare its call anew, so that the request says the form in words. Each refused
    call has a record.
    """
    for _ in range(_MOST_FORMS - 1):
        try:
            return await ask()
        except FieldRefused as refusal:
            logger.warning("asked again without %s", ", ".join(sorted(refusal.fields)))
    return await ask()


async def make_call(
    call: PreparedCall,
    *,
    on_text: OnText | None = None,
    on_restart: OnRestart | None = None,
    is_enough: IsEnough | None = None,
    validate: Validate | None = None,
    answer: AnswerReader | None = None,
) -> Reply:
    """Make a call that `let_through` has counted. The call's artifact is stored even if the call
    fails.

    `on_text` gets each piece of text as it arrives, and `on_restart` is called if the text of this
    call so far turns out to be hidden reasoning. `is_enough` gets the text so far, and ends the
    reply by returning True. `validate` gets the whole reply, and may raise UnusableReply. `answer`
    takes tool calls out of the text; an answer that is an object is read without it. Raises
    ProviderError.
    """
    async with recorded(call) as outcome:
        words = _Words(answer, on_text, on_restart)
        try:
            await _stream(call, outcome, words, is_enough)
        finally:
            # Even if the reply broke off, the text that was held back is shown.
            end = words.end()
        was_cut = outcome.finished is not None and outcome.finished.was_cut
        tool_calls = tuple(outcome.tool_calls or end.calls)
        reply = Reply(words.text, was_cut, tool_calls, outcome.text, end.problem)
        if validate is not None:
            # The check runs in a thread, so that the lease of the job can be renewed meanwhile.
            # Repairing a long malformed reply may take longer than the lease.
            await asyncio.to_thread(validate, reply)
    return reply


@dataclass
class _Words:
    """The words of an answer, which `answer` separates from the calls in it."""

    answer: AnswerReader | None
    on_text: OnText | None
    on_restart: OnRestart | None
    _parts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def take(self, piece: str) -> None:
        self._add(self.answer.take(piece) if self.answer else piece)

    def restart(self) -> None:
        self.answer = self.answer and self.answer.anew()
        self._parts.clear()
        if self.on_restart is not None:
            self.on_restart()

    def end(self) -> AnswerEnd:
        end = self.answer.end() if self.answer else AnswerEnd()
        self._add(end.text)
        return end

    def _add(self, text: str) -> None:
        if text:
            self._parts.append(text)
            if self.on_text is not None:
                self.on_text(text)


async def make_prose_call(
    call: PreparedCall,
    *,
    on_text: OnText | None = None,
    on_restart: OnRestart | None = None,
    is_enough: IsEnough | None = None,
    validate: Validate | None = None,
) -> Reply:
    """Make a call whose answer is read by people, by `make_call`. A tool call in the answer is left
    out, because the model was offered no tool; the artifact keeps the tool call.

    Raises UnusableReply if the answer has nothing but tool calls.
    """

    def check(reply: Reply) -> None:
        if reply.tool_calls or reply.problem:
            names = ", ".join(one.name or "?" for one in reply.tool_calls) or "a broken one"
            label = call.model.agent.label
            logger.warning("agent %s wrote calls of tools, which were left out: %s", label, names)
            if not reply.text.strip():
                raise UnusableReply(ONLY_CALLS)
        if validate is not None:
            validate(reply)

    reader = AnswerReader()
    return await make_call(
        call,
        on_text=on_text,
        on_restart=on_restart,
        is_enough=is_enough,
        validate=check,
        answer=reader,
    )


async def warm_model(agent: Agent, session_id: uuid.UUID, compose: Compose) -> None:
    """Let the model read the start of a request into its cache. The text that the model writes is
    dropped.

    Raises the errors of `call_model`, and WrongState if the agent's model is not the embedded one.
    """

    def prepare() -> PreparedCall:
        call = prepare_call(read_model(agent), session_id, compose, output_tokens=1)
        # The provider is asked and not the settings, because the user may have chosen a server that
        # charges for each request.
        if call.provider.name != embedded_provider.NAME:
            raise WrongState("Only the embedded model reads ahead.")
        return call

    call = await let_call_through(session_id, prepare)
    async with recorded(call) as outcome:
        # This call costs nothing, because only the embedded model is warmed up. The tokens of this
        # request are counted later, with the reply whose request begins in the same way.
        outcome.may_cost = False
        async with aclosing(call.provider.stream(call.request)) as parts:
            await anext(parts, None)
        outcome.finished = Finished()


def check_allowed(session_id: uuid.UUID, agent: Agent) -> None:
    """Raise an error if the chapter may not call the agent's model now. No call is counted here.

    Raises ConsentMissing, RateLimited or BudgetSpent.
    """
    model = read_model(agent)
    check_host(model.host)
    check_price(model.choice)
    check_rate(session_id)
    check_budget(session_id)


def let_through(session_id: uuid.UUID, prepare: Callable[[], PreparedCall]) -> PreparedCall:
    """Prepare a call, check whether it is allowed, count it, and reserve what it may cost.

    A call that cannot be sent is not counted, because it is prepared first. This matters for a job
    that waits for the embedded model, because the job tries to call the model every few seconds. A
    call counts once even if its provider repeats it. A repair, a continuation, another try of a job
    and a warm-up each count as one more call. Whoever does not send the call afterwards has to call
    `give_back`. Raises RateLimited, BudgetSpent, BudgetReserved, and the errors of `prepare`.
    """
    call = prepare()
    return replace(call, admission=admit(session_id, call.reservation))


async def let_call_through(
    session_id: uuid.UUID, prepare: Callable[[], PreparedCall]
) -> PreparedCall:
    """Do what `let_through` does, in a thread where the ORM may be used."""
    asked = asyncio.ensure_future(in_database(let_through, session_id, prepare))
    try:
        return await asyncio.shield(asked)
    except asyncio.CancelledError:
        # The thread continues after a stop, and may admit a call that nobody will send.
        asked.add_done_callback(_give_back_admitted)
        raise


def _give_back_admitted(done: "asyncio.Future[PreparedCall]") -> None:
    if not done.cancelled() and done.exception() is None:
        give_back(done.result().admission)


async def _stream(
    call: PreparedCall, outcome: Outcome, words: _Words, is_enough: IsEnough | None
) -> None:
    length, ask_at = 0, 0.0
    # When a reply is stopped, the stream is closed at once, so that the server stops writing too.
    async with aclosing(call.provider.stream(call.request)) as parts:
        async for part in parts:
            outcome.take(part)
            if isinstance(part, Restart):
                length, ask_at = 0, 0.0
                words.restart()
            if not isinstance(part, TextDelta):
                continue
            words.take(part.text)
            length += len(part.text)
            if is_enough is not None and length >= ask_at:
                ask_at = length * (1 + _GROWTH)
                if is_enough(outcome.text):
                    outcome.finished = Finished(was_cut=True)
                    break
    if not outcome.text.strip() and not outcome.tool_calls:
        raise EmptyReply(
            "The model returned an empty reply. Nothing was lost; try again, "
            "or choose another model."
        )
