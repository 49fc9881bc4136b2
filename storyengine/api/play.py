"""Turns: a prompt and its reply, stopping it, keeping it, having it written again."""

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Header, Router
from ninja.responses import Status

from agents.flows.replies import keep_reply, start_prompt, start_reroll, stop_reply
from sessions.turns import OpenedTurn
from storyengine.api.bodies import PromptBody
from storyengine.api.documents import SessionDocument, TurnAnswer
from storyengine.api.problems import CALL, WRITE, refusals
from storyengine.api.reading import read_answer, read_whole_session
from storyengine.api.streaming import await_answer, stream_answer

router = Router(tags=["Play"])

REPLY = {201: TurnAnswer, **WRITE, **refusals(429, 502)}
STREAMS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "With `Accept: text/event-stream`: any number of `token` events with "
            '`{"text": …}` (and `"is_restart": true` where the text replaces what came before), '
            "then one `turn` event with what 201 answers, or one `error` event with a problem.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    }
}

IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="At most 100 characters. Sent again under the same key it is the same turn: "
        "409 while it is in flight, the same answer after success, another try after a failure, "
        "and 409 for other words or another agent. "
        "Without a key each request is a turn of its own.",
    ),
]


@router.post(
    "/session/{uuid:session_id}/prompt",
    response=REPLY,
    openapi_extra=STREAMS,
)
async def send_prompt(
    request: HttpRequest, session_id: UUID, body: PromptBody, idempotency_key: IdempotencyKey = ""
) -> Status[TurnAnswer] | HttpResponseBase:
    """Tell a character what happens, and have its reply.

    The prompt is stored first. The reply is written also when the client leaves. A reply that
    fails (502) or is stopped (409) moves nothing; the problem carries the pending turn.
    """
    opened = await start_prompt(
        session_id,
        agent_slot=body.agent_slot,
        user_text=body.user_text,
        submission_key=idempotency_key,
    )
    return await _answer(request, opened)


@router.post(
    "/session/{uuid:session_id}/reroll",
    response=REPLY,
    openapi_extra=STREAMS,
)
async def reroll(
    request: HttpRequest, session_id: UUID, idempotency_key: IdempotencyKey = ""
) -> Status[TurnAnswer] | HttpResponseBase:
    """Have the latest reply written again, as another event of the same prompt."""
    opened = await start_reroll(session_id, submission_key=idempotency_key)
    return await _answer(request, opened)


@router.post("/session/{uuid:session_id}/stop", response={200: SessionDocument, **CALL})
async def stop(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Stop the reply that is being written; its text so far stays in `pending_turn`."""
    await stop_reply(session_id)
    return await read_whole_session(session_id)


@router.post("/session/{uuid:session_id}/keep", response={201: TurnAnswer, **CALL})
def keep(request: HttpRequest, session_id: UUID) -> Status[TurnAnswer]:
    """Make the text of a stopped or broken reply the reply."""
    return Status(201, read_answer(keep_reply(session_id)))


async def _answer(
    request: HttpRequest, opened: OpenedTurn
) -> Status[TurnAnswer] | HttpResponseBase:
    wanted = request.get_preferred_type(["application/json", "text/event-stream"])
    if wanted == "text/event-stream":
        return stream_answer(request, opened)
    return Status(201, await await_answer(opened))
