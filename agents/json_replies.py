"""Agents 0 and 8: a reply that is one JSON object, with one chance to repair it."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from agents.calls import Compose, call_model
from agents.declarations import Agent
from agents.layers import Layer, text_layer
from agents.prompt_files import render_prompt
from agents.schemas import InvalidReply, Payload, Shape, parse_reply
from agents.watch import Watch

# The model sees its own answer again, cut so that a runaway does not fill the window.
REPAIRED_CHARACTERS = 6_000


async def call_for_json(
    agent: Agent,
    session_id: uuid.UUID,
    compose: Compose,
    shape: type[Shape],
    *,
    json_schema: Mapping[str, Any],
    watch: Watch,
    check: Callable[[Payload], None] | None = None,
    job_id: uuid.UUID | None = None,
) -> Payload:
    """The payload exactly as the model returned it, after at most one repair.

    `check` may raise InvalidReply for what the shape cannot say. Raises InvalidReply when the
    repair failed too, and what `call_model` raises.
    """
    answers: list[str] = []

    def validate(text: str) -> None:
        answers.append(text)
        payload = parse_reply(text, shape)
        if check is not None:
            check(payload)

    async def ask(layers: Compose) -> Payload:
        watch.show("")
        reply = await call_model(
            agent,
            session_id,
            layers,
            json_schema=json_schema,
            on_text=watch.add,
            validate=validate,
            job_id=job_id,
        )
        return parse_reply(reply.text, shape)

    try:
        return await ask(compose)
    except InvalidReply as invalid:
        repair = _repair_layers(answers[-1], str(invalid))
        return await ask(lambda: [*compose(), *repair])


def _repair_layers(answer: str, problem: str) -> list[Layer]:
    return [
        text_layer(
            "EARLIER_REPLY", answer[:REPAIRED_CHARACTERS], role="assistant", has_heading=False
        ),
        text_layer("REPAIR", render_prompt("repair", error=problem), has_heading=False),
    ]
