"""Turns: prompts with their replies, and the ways to stop, keep, repeat, edit or choose a reply."""

from typing import Annotated, Any
from uuid import UUID

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from ninja import Header, Router
from ninja.responses import Status

from agents.flows.replies.acting import do_act
from agents.flows.replies.choosing import choose_reply, edit_reply
from agents.flows.replies.turns import keep_reply, start_prompt, start_reroll, stop_reply
from sessions.play.attempts import EVERYBODY, OpenedAttempt
from storyengine.api.bodies import ActBody, ChooseBody, EditBody, PromptBody, RerollBody
from storyengine.api.document_reading import read_act, read_answer, read_turn, read_whole_session
from storyengine.api.documents import ActAnswer, SessionDocument, TurnAnswer, TurnDocument
from storyengine.api.problems import CALL, READ, WRITE, refusals
from storyengine.api.streaming import await_answer, stream_answer

router = Router(tags=["Play"])

REPLY = {201: TurnAnswer, **WRITE, **refusals(429, 502)}
STREAMS: dict[str, Any] = {
    "responses": {
        200: {
            "description": "With `Accept: text/event-stream`: any number of `token` events with "
            '`{"text": …}` (and `"is_restart": true` where the text replaces what came before, '
            "with a `note` where the model is asked once more), then one `turn` event with what "
            "201 answers, or one `error` event with a problem. The tokens are all that the model "
            "writes, also what is stored as a thought. Where the agent has tools, a `change` event "
            'follows the text of each step that changed the world: `{"step": …, "changes": […]}`, '
            "each change as in `…/turns/{number}`. Such changes count once the `turn` event has "
            "come, and none of them after an `error` event, unless the text is kept. A stream that "
            "begins late, or of a reply that another process writes, has the same `change` events, "
            "at the latest before the `turn` event; `after_chars` says where each belongs. A "
            "`token` event with `is_restart` takes back no `change` event.",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        }
    }
}

IdempotencyKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="At most 100 characters. Sent again under the same key it is the same attempt: "
        "409 while it is in flight, the same answer after success, another try after a failure, "
        "409 once play went on without it, and 409 for other words, another `given` or another "
        "agent. "
        "Without a key each request is an attempt of its own.",
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
    """Send a prompt, which tells a character what happens, and return the character's reply.

    The prompt is stored first, and the reply is written even if the client disconnects. If the
    reply fails (502) or is stopped (409), the story is unchanged, and the answer has the pending
    turn.
    """
    opened = await start_prompt(
        session_id,
        actor=body.agent_slot,
        words=body.user_text,
        witnesses=body.witnesses,
        given=body.given,
        submission_key=idempotency_key,
    )
    return await _answer(request, opened)


@router.post(
    "/session/{uuid:session_id}/reroll",
    response=REPLY,
    openapi_extra=STREAMS,
)
async def reroll(
    request: HttpRequest,
    session_id: UUID,
    body: RerollBody | None = None,
    idempotency_key: IdempotencyKey = "",
) -> Status[TurnAnswer] | HttpResponseBase:
    """Write another reply to the latest prompt, with the same or other words, by the same or
    another character.

    The new attempt is chosen when it is complete. The earlier attempt is kept and can be chosen
    again.
    """
    body = body or RerollBody.model_construct()
    opened = await start_reroll(
        session_id,
        number=body.number,
        actor=body.agent_slot,
        words=body.user_text,
        witnesses=EVERYBODY if body.witnesses == "everybody" else body.witnesses,
        given=body.given,
        submission_key=idempotency_key,
    )
    return await _answer(request, opened)


@router.get(
    "/session/{uuid:session_id}/turns/{int:number}",
    response={200: TurnDocument, **READ, **refusals(422)},
)
def get_turn(
    request: HttpRequest, session_id: UUID, number: int, thoughts: bool = False
) -> TurnDocument:
    """Return a turn with all attempts at it. With `thoughts`, their events include thoughts."""
    return read_turn(session_id, number, with_thoughts=thoughts)


@router.post(
    "/session/{uuid:session_id}/turns/{int:number}/choose",
    response={200: TurnDocument, **WRITE},
)
def choose(request: HttpRequest, session_id: UUID, number: int, body: ChooseBody) -> TurnDocument:
    """Choose another committed attempt at the latest turn. No model is called."""
    choose_reply(session_id, number, body.attempt_id)
    return read_turn(session_id, number)


@router.post(
    "/session/{uuid:session_id}/turns/{int:number}/edit", response={201: TurnAnswer, **WRITE}
)
def edit(
    request: HttpRequest,
    session_id: UUID,
    number: int,
    body: EditBody,
    idempotency_key: IdempotencyKey = "",
) -> Status[TurnAnswer]:
    """Replace the text of the latest reply by another text. The edit is another attempt, and no
    model is called."""
    attempt = edit_reply(session_id, number, body.text, submission_key=idempotency_key)
    return Status(201, read_answer(attempt))


@router.post("/session/{uuid:session_id}/act", response={201: ActAnswer, **WRITE})
def act(request: HttpRequest, session_id: UUID, body: ActBody) -> Status[ActAnswer]:
    """Change the world by an act of the chapter's mode. No model is called.

    The act closes the latest turn to other attempts. If the mode has no such act, or if the
    arguments do not fit, the answer is 422 and names the acts of the mode.
    """
    return Status(201, read_act(session_id, do_act(session_id, body.act, body.arguments)))


@router.post("/session/{uuid:session_id}/stop", response={200: SessionDocument, **CALL})
async def stop(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Stop the reply that is being written. Its text so far is in `pending_turn`."""
    await stop_reply(session_id)
    return await read_whole_session(session_id)


@router.post("/session/{uuid:session_id}/keep", response={201: TurnAnswer, **CALL})
def keep(request: HttpRequest, session_id: UUID) -> Status[TurnAnswer]:
    """Commit the text of a stopped or failed reply as the whole reply."""
    return Status(201, read_answer(keep_reply(session_id)))


async def _answer(
    request: HttpRequest, opened: OpenedAttempt
) -> Status[TurnAnswer] | HttpResponseBase:
    wanted = request.get_preferred_type(["application/json", "text/event-stream"])
    if wanted == "text/event-stream":
        return stream_answer(request, opened)
    return Status(201, await await_answer(opened))
