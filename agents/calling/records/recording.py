"""Stores the record of each call of a model, also of one that failed or was stopped."""

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import Error as DatabaseError
from django.db import transaction

from agents.calling.admission import end_reservation
from agents.calling.prepared_calls import PreparedCall, believed, told_too_few
from agents.calling.records.stored_prompts import hash_messages, pack_layers, store_texts
from agents.calling.servers.refused_fields import note_refused_fields
from agents.calling.spending import add_to_spending
from agents.llm.facts.reported_windows import store_reports
from agents.llm.providers.base import (
    Finished,
    ModelRequest,
    Restart,
    StreamPart,
    TakenOff,
    TextDelta,
    ToolCall,
    Usage,
)
from agents.llm.providers.failures.call_errors import (
    FREE_FAILURES,
    ContextOverflow,
    FieldRefused,
    ProviderError,
)
from agents.llm.providers.windows import WindowReport
from agents.models import LLMArtifact
from agents.prompting.budget import calibrate, read_weight_per_token
from agents.prompting.layers import weigh
from agents.running.database import in_database_patiently
from sessions import counts
from sessions.chapter.access import lock_chapter
from sessions.language.text import scrub_reply
from sessions.log_lines import note
from sessions.storage import describe

logger = logging.getLogger(__name__)

# The error in the record of a call that was stopped by the GM or by the end of the program.
STOPPED = "Stopped before the end."
# At most this many characters are kept of the text that was taken off an answer.
MOST_TAKEN_OFF = 20_000


@dataclass
class Outcome:
    """The result of a call at its end, which may be an error."""

    parts: list[str] = field(default_factory=list)
    tool_calls: list[ToolCall] = field(default_factory=list)
    finished: Finished | None = None
    # The usage that the provider reported. None without a report, or if the report cannot be true.
    usage: Usage | None = None
    error: str = ""
    # The words of the server or the model about the error.
    server_said: str = ""
    # The name of the error's class, which is shown only in the log.
    failure: str = ""
    # The fields of the request that the server refused, and the window that it named because the
    # request was too long.
    refused: frozenset[str] = frozenset()
    window: int | None = None
    started: float = field(default_factory=time.perf_counter)
    first_token_ms: int | None = None
    # The text that was taken off the answer, and its number of characters, including the characters
    # that are not kept.
    taken_off: list[str] = field(default_factory=list)
    taken_off_length: int = 0
    # True if the provider may charge for the call. The provider may charge even if it reported no
    # tokens.
    may_cost: bool = True

    @property
    def text(self) -> str:
        return scrub_reply("".join(self.parts))

    @property
    def taken_off_text(self) -> str:
        kept = scrub_reply("".join(self.taken_off)[:MOST_TAKEN_OFF])
        return f"{kept}…" if self.taken_off_length > MOST_TAKEN_OFF else kept

    def take(self, part: StreamPart) -> None:
        match part:
            case TextDelta():
                if self.first_token_ms is None:
                    self.first_token_ms = milliseconds(self.started, time.perf_counter())
                self.parts.append(part.text)
            case TakenOff():
                self._take_off(part.text)
            case Restart(is_next_try=True):
                self.taken_off, self.taken_off_length = [], 0
            case Restart():
                self._take_off("".join(self.parts))
                self.parts, self.first_token_ms = [], None
            case ToolCall():
                self.tool_calls.append(part)
            case Finished():
                self.finished = part

    def _take_off(self, text: str) -> None:
        if self.taken_off_length <= MOST_TAKEN_OFF:
            self.taken_off.append(text)
        self.taken_off_length += len(text)

    @property
    def in_a_word(self) -> str:
        if not self.error:
            return "finished"
        return "stopped" if self.error == STOPPED else "failed"


@asynccontextmanager
async def recorded(call: PreparedCall) -> AsyncGenerator["Outcome"]:
    outcome = Outcome()
    if call.admission is not None:
        call.admission.was_sent = True
    try:
        yield outcome
    except asyncio.CancelledError:
        outcome.error = STOPPED
        raise
    except ProviderError as error:
        outcome.failure = type(error).__name__
        outcome.error = str(error) or outcome.failure
        outcome.server_said = error.said
        if isinstance(error, FieldRefused):
            outcome.refused = error.fields
        if isinstance(error, ContextOverflow):
            outcome.window = error.window
        outcome.may_cost = outcome.may_cost and not isinstance(error, FREE_FAILURES)
        raise
    finally:
        if not outcome.finished and not outcome.error:
            outcome.error = "Broke off."
        if outcome.finished:
            outcome.refused = outcome.finished.refused
        reported = outcome.finished.usage if outcome.finished else None
        outcome.usage = believed(reported, call.possible)
        _note(call, outcome)
        try:
            await in_database_patiently(_record, call, outcome)
        except DatabaseError as error:
            # The error is only logged, because a missing record must not make a reply fail.
            logger.warning("a model call could not be recorded: %s", describe(error))


def _record(call: PreparedCall, outcome: Outcome) -> None:
    """Store the call's artifact, unless its chapter was reset meanwhile, and what the server told
    of its model. A deleted chapter gets the artifact too, because the chapter may be brought back
    and the call has cost something."""
    now = time.perf_counter()
    # The texts are prepared before the transaction, so that other writers need not wait for this
    # work. A text that is already stored is not prepared. Such a text cannot disappear before the
    # transaction, because stored texts are deleted only together with their chapter.
    layers, texts = pack_layers(call.session_id, call.prompt.layers)
    input_hash = hash_messages(call.request.messages)
    _learn(call, outcome)
    with transaction.atomic():
        if not lock_chapter(call.session_id, also_deleted=True):
            return
        store_texts(texts)
        artifact = LLMArtifact.objects.create(
            session_id=call.session_id,
            attempt_id=call.attempt_id,
            job_id=call.job_id,
            step=call.step,
            agent=call.model.agent.name,
            agent_id=call.model.agent.agent_id,
            provider=call.provider.name,
            model=call.request.model,
            input_hash=input_hash,
            token_counts=_token_counts(outcome.usage) or _too_few(call, outcome),
            sent_options=_sent_options(call.request, outcome.refused),
            **_estimated_counts(call, outcome),
            layers=layers,
            raw_output_ref=outcome.text,
            taken_off=outcome.taken_off_text,
            tool_calls=[one.as_sent() for one in outcome.tool_calls],
            error=outcome.error,
            server_said=outcome.server_said,
            first_token_ms=outcome.first_token_ms,
            duration_ms=milliseconds(outcome.started, now),
        )
        add_to_spending(artifact)
        end_reservation(call.admission)
        if outcome.usage is not None:
            calibrate(call.request.model, call.model.agent.name, call.prompt.weight, outcome.usage)


def _learn(call: PreparedCall, outcome: Outcome) -> None:
    """Store what the server told of its model: the fields that it refuses, and a smaller window
    than the request was composed for.

    The embedded model, which has no address, refuses a field only for its value, such as a grammar.
    """
    address = call.model.choice.server.address
    if outcome.refused and address:
        note_refused_fields(address, call.request.model, outcome.refused)
    if outcome.window is not None and outcome.window < call.model.facts.context_window:
        report = WindowReport(outcome.window)
        store_reports(address, {call.request.model: report})


def _sent_options(request: ModelRequest, refused: frozenset[str]) -> dict[str, Any]:
    """Return how the model was asked to write. The result has only the options that were sent."""
    left_out = request.left_out | refused
    options = {
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "stop": request.extra_body.get("stop"),
        "grammar": request.extra_body.get("grammar"),
    }
    return {
        name: value for name, value in options.items() if value is not None and name not in left_out
    }


def _note(call: PreparedCall, outcome: Outcome) -> None:
    note(
        logger,
        "model call",
        agent=call.model.agent.label,
        model=call.request.model,
        outcome=outcome.in_a_word,
        failure=outcome.failure,
        ms=milliseconds(outcome.started, time.perf_counter()),
        first_token_ms=outcome.first_token_ms,
        is_reply=call.attempt_id is not None,
        session_id=call.session_id,
        attempt_id=call.attempt_id,
        job_id=call.job_id,
        **_token_counts(outcome.usage),
    )
    agent = str(call.model.agent.label)
    counts.model_calls.labels(agent, outcome.in_a_word).inc()
    for way in ("input", "output", "cached"):
        counts.tokens.labels(agent, way).inc(_token_counts(outcome.usage).get(way, 0))
    if outcome.failure:
        counts.failures.labels("model call", outcome.failure).inc()
    if call.attempt_id is not None and outcome.first_token_ms is not None:
        counts.first_token_seconds.observe(outcome.first_token_ms / 1000)


def _token_counts(usage: Usage | None) -> dict[str, int]:
    if usage is None:
        return {}
    return {
        "input": usage.input_tokens,
        "output": usage.output_tokens,
        "cached": usage.cached_tokens,
    }


def _too_few(call: PreparedCall, outcome: Outcome) -> dict[str, int]:
    told = told_too_few(outcome.finished.usage if outcome.finished else None, call.possible)
    return {"too_few": told} if told else {}


def _estimated_counts(call: PreparedCall, outcome: Outcome) -> dict[str, int]:
    """Return estimates for the tokens of a call without a report. Hidden reasoning is not
    estimated.

    An estimate is never above the limits, although a server that ignores its limits may send more.
    """
    if outcome.usage is not None or not outcome.may_cost:
        return {}
    weight_per_token = read_weight_per_token(call.request.model, call.model.agent.name)
    written = weigh(outcome.text) + sum(weigh(one.arguments) for one in outcome.tool_calls)
    return {
        "estimated_input": call.estimated_read,
        "estimated_output": min(math.ceil(written / weight_per_token), call.possible.written),
    }


def milliseconds(start: float, end: float) -> int:
    return round((end - start) * 1000)
