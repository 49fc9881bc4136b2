"""Makes one tiny call of a model, so that the user sees whether it answers.

No text of a story is sent, and no record is kept, because a record belongs to a chapter.
"""

import asyncio
import time
import uuid
from contextlib import aclosing
from dataclasses import dataclass

from agents.calling import rates
from agents.calling.consent import check_host
from agents.calling.model_access import facts_at, provider_at
from agents.prompting.declarations import Agent
from agents.providers.base import Finished, Message, ModelRequest, Provider, TextDelta
from agents.providers.exceptions import ProviderError
from agents.servers.choices import choice_of, refresh_choices, with_served_model

# The limit is enough for a model that reasons before it answers.
_OUTPUT_TOKENS = 300
_SECONDS = 60.0
_SHOWN_CHARS = 80
# The calls of tests count towards the calls per minute, as if they belonged to one chapter.
_TESTS = uuid.UUID(int=0)


@dataclass(frozen=True)
class TestResult:
    """What a test found. `said` is the beginning of the model's words, and `problem` is a sentence
    if the model did not answer."""

    __test__ = False

    works: bool
    server: str
    model: str
    seconds: float
    first_seconds: float | None
    said: str
    tokens: int | None
    problem: str


def try_model(agent: Agent) -> TestResult:
    """Call the agent's model. Raises ConsentMissing and RateLimited, and sends nothing then."""
    refresh_choices()
    choice = choice_of(agent)
    started = time.perf_counter()
    said, tokens, first, problem = "", None, None, ""
    try:
        provider = provider_at(choice.server)
        check_host(provider.host)
        facts, choice = facts_at(choice), with_served_model(choice)
        rates.count_call(_TESTS)
        request = ModelRequest(
            model=choice.model,
            messages=(Message("user", "Answer with the one word: Ready."),),
            max_output_tokens=min(_OUTPUT_TOKENS, facts.max_output),
            token_parameter=facts.token_parameter,
            reasoning_effort="low" if facts.reasoning_effort else "",
            streams=facts.streaming,
        )
        said, tokens, first = asyncio.run(_ask(provider, request, started))
    except ProviderError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"It did not finish within {_SECONDS:.0f} seconds."
    return TestResult(
        works=not problem,
        server=choice.server.title,
        model=choice.model,
        seconds=time.perf_counter() - started,
        first_seconds=first,
        said=said,
        tokens=tokens,
        problem=problem,
    )


async def _ask(
    provider: Provider, request: ModelRequest, started: float
) -> tuple[str, int | None, float | None]:
    text, tokens, first = "", None, None
    async with asyncio.timeout(_SECONDS), aclosing(provider.stream(request)) as parts:
        async for part in parts:
            if isinstance(part, TextDelta):
                first = first or time.perf_counter() - started
                text += part.text
            if isinstance(part, Finished) and part.usage is not None:
                tokens = part.usage.input_tokens + part.usage.output_tokens
    words = " ".join(text.split())
    shown = "".join(sign for sign in words if sign.isprintable())
    return shown[:_SHOWN_CHARS], tokens, first
