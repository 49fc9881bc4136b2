"""Makes one tiny call of a model, so that the user sees whether it answers.

No text of a story is sent. Each test is recorded, and all tests of a day may cost as much as a
chapter may.
"""

import asyncio
import math
import time
import uuid
from contextlib import aclosing
from dataclasses import dataclass
from datetime import timedelta

from django.db import transaction
from django.utils import timezone

from agents.calling.admission import Admission, Reservation, admit, end_reservation
from agents.calling.consent import check_host
from agents.calling.model_access import provider_at, read_model
from agents.calling.prepared_calls import believed, possible_tokens
from agents.calling.servers.choices import Choice
from agents.calling.servers.refused_fields import note_refused_fields, refused_fields
from agents.calling.spending import check_budget, check_budget_of_tests, check_price
from agents.llm.providers.base import (
    Finished,
    Message,
    ModelRequest,
    Provider,
    Restart,
    TextDelta,
    Usage,
)
from agents.llm.providers.failures.call_errors import FREE_FAILURES, ProviderError
from agents.models import ModelTest
from agents.prompting.agent import Agent
from agents.prompting.budget import DEFAULT_WEIGHT_PER_TOKEN
from agents.prompting.layers import weigh
from sessions.models import Session

# The limit is enough for a model that reasons before it answers.
_OUTPUT_TOKENS = 300
_SECONDS = 60.0
_SHOWN_CHARS = 80
# How long a record is kept.
_KEPT = timedelta(days=30)
# The calls of tests count towards the calls per minute, as if they belonged to one chapter.
_TESTS = uuid.UUID(int=0)


@dataclass(frozen=True)
class TestResult:
    """What a test found. `said` is the beginning of the model's words. If the model did not answer,
    `problem` is a sentence of the program, and `server_said` has the words of the server."""

    __test__ = False

    works: bool
    server: str
    model: str
    seconds: float
    first_seconds: float | None
    said: str
    tokens: int | None
    problem: str
    server_said: str = ""


@dataclass
class _Heard:
    """The parts of the model's answer that have come so far."""

    text: str = ""
    usage: Usage | None = None
    first_seconds: float | None = None
    # True if the provider may charge for the call. The provider may charge even if it reported no
    # tokens.
    may_cost: bool = True
    # The fields of the request that the server refused.
    refused: frozenset[str] = frozenset()

    @property
    def shown(self) -> str:
        words = " ".join(self.text.split())
        return "".join(sign for sign in words if sign.isprintable())[:_SHOWN_CHARS]

    @property
    def tokens(self) -> int | None:
        return None if self.usage is None else self.usage.input_tokens + self.usage.output_tokens


def try_model(agent: Agent, chapter: Session | None = None) -> TestResult:
    """Call the agent's model, and record the test. `chapter` is the chapter whose model is tested.

    Raises ConsentMissing, PriceUnknown, RateLimited, BudgetSpent and KeysUnreadable, and sends
    nothing then.
    """
    model = read_model(agent)
    choice = model.choice
    check_price(choice)
    check_budget_of_tests()
    if chapter is not None:
        check_budget(chapter.pk)
    started = time.perf_counter()
    heard, problem, said, request, admission = _Heard(), "", "", None, None
    try:
        provider = provider_at(choice.server)
        check_host(provider.host)
        model = model.when_ready()
        choice, facts = model.choice, model.facts
        request = ModelRequest(
            model=choice.model,
            messages=(Message("user", "Answer with the one word: Ready."),),
            max_output_tokens=min(_OUTPUT_TOKENS, facts.max_output),
            token_parameter=facts.token_parameter,
            reasoning_effort="low" if facts.reasoning_effort else "",
            streams=facts.streaming,
            left_out=refused_fields(choice.server.address, choice.model),
        )
        admission = _admit(request, choice)
        asyncio.run(_ask(provider, request, started, heard))
    except ProviderError as error:
        problem, said = str(error), error.said
        heard.may_cost = not isinstance(error, FREE_FAILURES)
    except TimeoutError:
        problem = f"It did not finish within {_SECONDS:.0f} seconds."
    seconds = time.perf_counter() - started
    if request is not None and admission is not None:
        record = ModelTest(session=chapter, agent=agent.name, error=problem, server_said=said)
        record.provider, record.model = choice.server.provider, choice.model
        record.duration_ms = round(seconds * 1_000)
        if heard.refused:
            note_refused_fields(choice.server.address, choice.model, heard.refused)
        _record(record, request, heard, admission)
    return TestResult(
        works=not problem,
        server=choice.server.title,
        model=choice.model,
        seconds=seconds,
        first_seconds=heard.first_seconds,
        said=heard.shown,
        tokens=heard.tokens,
        problem=problem,
        server_said=said,
    )


def _admit(request: ModelRequest, choice: Choice) -> Admission:
    """Count the call of a test, and reserve what it may cost towards the tests of a day."""
    read = math.ceil(_weight_of(request) / DEFAULT_WEIGHT_PER_TOKEN)
    written = request.max_output_tokens
    reservation = Reservation(choice.server.provider, request.model, read, written)
    return admit(_TESTS, reservation, check_budget_of_tests)


def _weight_of(request: ModelRequest) -> float:
    return sum(weigh(one.content) for one in request.messages)


async def _ask(provider: Provider, request: ModelRequest, started: float, heard: _Heard) -> None:
    async with asyncio.timeout(_SECONDS), aclosing(provider.stream(request)) as parts:
        async for part in parts:
            if isinstance(part, TextDelta):
                heard.first_seconds = heard.first_seconds or time.perf_counter() - started
                heard.text += part.text
            if isinstance(part, Restart):
                heard.text, heard.first_seconds = "", None
            if isinstance(part, Finished):
                heard.usage, heard.refused = part.usage, part.refused


def _record(record: ModelTest, request: ModelRequest, heard: _Heard, admission: Admission) -> None:
    """Store the test with its tokens. The tokens are estimated if the server reported no numbers
    that can be true. Delete records that are older than a month."""
    weight = _weight_of(request)
    possible = possible_tokens(request, weight=weight, window=None)
    usage = believed(heard.usage, possible)
    if usage is not None:
        heard.usage = usage
        record.token_counts = {
            "input": usage.input_tokens,
            "output": usage.output_tokens,
            "cached": usage.cached_tokens,
        }
    elif heard.may_cost:
        heard.usage = None
        record.estimated_input = math.ceil(weight / DEFAULT_WEIGHT_PER_TOKEN)
        written = math.ceil(weigh(heard.text) / DEFAULT_WEIGHT_PER_TOKEN)
        record.estimated_output = min(written, possible.written)
    with transaction.atomic():
        record.save()
        end_reservation(admission)
    ModelTest.objects.filter(tested_at__lt=timezone.now() - _KEPT).delete()
