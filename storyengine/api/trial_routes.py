"""Trials: the latest reply is written again with one layer of its request changed, and the result
can be adopted."""

from datetime import datetime
from typing import Annotated, Literal
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Router
from ninja.responses import Status
from pydantic import Field

from agents.calling.records.call_records import CallRecord
from agents.flows.replies.layers_to_try import read_reply
from agents.flows.replies.trials import adopt_trial, read_trial, start_trial, stop_trial
from agents.running.database import in_database
from agents.running.recovery import recover
from sessions.models import Attempt
from storyengine.api.background_routes import Prefer
from storyengine.api.bodies import TrialBody
from storyengine.api.call_routes import CallFigures, figures_of
from storyengine.api.document_reading import read_answer
from storyengine.api.documents import Document, TurnAnswer
from storyengine.api.problems import CALL, READ, WRITE, refusals
from storyengine.api.streaming import is_answer_awaited

router = Router(tags=["Trials"])

TrialKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="At most 100 characters. Sent again under the same key it is the same trial, "
        "and another try of it after a failure. Without a key each request is a trial of its own.",
    ),
]


class TrialLayerDocument(Document):
    number: int = Field(description="Counted from 1, in the order in which they were sent.")
    name: str
    role: str
    tokens: int = Field(description="Estimated.")
    text: str


class TriedReplyDocument(Document):
    """The latest reply, and the layers of its request that a trial can change."""

    session_id: UUID
    prompt_index: int
    call_id: UUID = Field(description="The call that the reply came from.")
    reply: str = Field(description="Empty where it came to thoughts alone.")
    layers: list[TrialLayerDocument]


class TrialCallDocument(CallFigures):
    dollars: float | None = Field(description="At list prices; null where none is known.")


class TrialDocument(Document):
    """A trial, with the reply from which it was made."""

    trial_id: UUID = Field(description="The id of its attempt.")
    session_id: UUID
    prompt_index: int
    status: Literal["running", "done", "failed", "cancelled"]
    error: str
    layer: int
    layer_name: str
    layer_text_before: str
    layer_text: str = Field(description="Empty where the layer was left out.")
    reply_before: str
    reply: str = Field(
        description="Whole once it is done; before, as far as the model has written it. Empty "
        "where it came to thoughts alone."
    )
    call_before: TrialCallDocument | None
    call: TrialCallDocument | None = Field(description="Null until the model was called.")
    is_adopted: bool
    can_adopt: bool
    why_not: str = Field(description="Why the latest reply could not be replaced now.")
    created_at: datetime


ANSWERS = {200: TrialDocument, 202: TrialDocument, **WRITE, **refusals(429, 502)}


@router.get("/session/{uuid:session_id}/trial", response={200: TriedReplyDocument, **READ, **CALL})
def get_tried_reply(request: HttpRequest, session_id: UUID) -> TriedReplyDocument:
    """Return the layers of the latest reply's request. The answer is 409 if no trial of this reply
    is possible."""
    tried = read_reply(session_id)
    return TriedReplyDocument(
        session_id=session_id,
        prompt_index=tried.prompt_index,
        call_id=tried.call.artifact.pk,
        reply=tried.reply,
        layers=[
            TrialLayerDocument(
                number=one.number,
                name=one.name,
                role=one.sent.role,
                tokens=one.sent.tokens,
                text=one.text,
            )
            for one in tried.layers
        ],
    )


@router.post("/session/{uuid:session_id}/trial", response=ANSWERS)
async def run_trial(
    request: HttpRequest,
    session_id: UUID,
    body: TrialBody,
    response: HttpResponse,
    prefer: Prefer = "",
    idempotency_key: TrialKey = "",
) -> Status[TrialDocument]:
    """Write the latest reply again with another text in one layer of its request.

    The story is not changed. A second request with the same key makes no second trial.
    """
    opened = await start_trial(
        session_id,
        layer_number=body.layer,
        text=body.text,
        call_id=body.call_id,
        submission_key=idempotency_key,
    )
    trial_id = opened.attempt.pk
    was_awaited = await is_answer_awaited(opened, prefer, response)
    trial = await in_database(_read, session_id, trial_id)
    return Status(200 if was_awaited else 202, trial)


@router.get(
    "/session/{uuid:session_id}/trial/{uuid:trial_id}", response={200: TrialDocument, **READ}
)
def get_trial(request: HttpRequest, session_id: UUID, trial_id: UUID) -> TrialDocument:
    """Return the trial, with the reply from which it was made."""
    return _read(session_id, trial_id)


@router.post(
    "/session/{uuid:session_id}/trial/{uuid:trial_id}/stop", response={200: TrialDocument, **CALL}
)
async def stop_running_trial(
    request: HttpRequest, session_id: UUID, trial_id: UUID
) -> TrialDocument:
    """Stop the trial. Its text so far cannot be adopted."""
    await stop_trial(session_id, trial_id)
    return await in_database(_read, session_id, trial_id)


@router.post(
    "/session/{uuid:session_id}/trial/{uuid:trial_id}/adopt", response={201: TurnAnswer, **CALL}
)
def adopt(request: HttpRequest, session_id: UUID, trial_id: UUID) -> Status[TurnAnswer]:
    """Choose the trial, so that its reply becomes the latest reply. A second request changes
    nothing."""
    return Status(201, read_answer(adopt_trial(session_id, trial_id)))


# The API's name for each status of a trial's attempt. These names are kept for existing clients,
# although attempts have other names for their statuses now.
_STATUS: dict[str, Literal["running", "done", "failed", "cancelled"]] = {
    Attempt.Status.RUNNING: "running",
    Attempt.Status.COMMITTED: "done",
    Attempt.Status.FAILED: "failed",
    Attempt.Status.STOPPED: "cancelled",
    Attempt.Status.SET_ASIDE: "cancelled",
}


def _read(session_id: UUID, trial_id: UUID) -> TrialDocument:
    recover(session_id)
    trial = read_trial(session_id, trial_id)
    attempt = trial.attempt
    return TrialDocument(
        trial_id=attempt.pk,
        session_id=session_id,
        prompt_index=trial.prompt_index,
        status=_STATUS[attempt.status],
        error=attempt.error,
        layer=trial.layer_number,
        layer_name=trial.layer_name,
        layer_text_before=trial.text_before,
        layer_text=trial.text,
        reply_before=trial.reply,
        reply=trial.new_reply,
        call_before=_call(trial.base),
        call=_call(trial.call),
        is_adopted=trial.is_adopted,
        can_adopt=trial.can_adopt,
        why_not=trial.why_not,
        created_at=attempt.submitted_at,
    )


def _call(call: CallRecord | None) -> TrialCallDocument | None:
    if call is None:
        return None
    dollars = call.dollars
    return TrialCallDocument(
        **figures_of(call), dollars=None if dollars is None else float(dollars)
    )
