"""Work of agents 0, 8 and 9 in the background. A client may wait for its result."""

from collections.abc import Callable
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse
from ninja import Header, Router
from ninja.responses import Status

from agents.flows.beginning.from_starters import start_play
from agents.flows.telling.ending import reopen, request_end, retry_summary
from agents.flows.telling.narrating import cancel_build, request_build
from agents.flows.telling.rebuilding import request_rebuild
from agents.models import Job
from agents.running.database import in_database
from sessions.models import State
from storyengine.api.bodies import CallsBody
from storyengine.api.document_reading import (
    are_summaries_over,
    is_ending_over,
    is_job_over,
    read_job,
    read_latest_job,
    read_session,
    read_whole_session,
)
from storyengine.api.documents import JobDocument, SessionDocument
from storyengine.api.problems import CALL, JobCancelled, JobFailed, broken_job, refusals
from storyengine.api.waiting import accept_wait, wait_until

router = Router(tags=["In the background"])

ANSWERS = {200: SessionDocument, 202: SessionDocument, **CALL, **refusals(422, 429, 502)}

ANSWERS_TO_BODY = ANSWERS | refusals(400)
NOT_ACCEPTED = CallsBody()

Prefer = Annotated[
    str,
    Header(
        alias="Prefer",
        description="`wait=N`: answer when it is done, 200, or with what went wrong, but after N "
        "seconds (at most 600) with 202 in any case. Without it the answer is 202 at once.",
    ),
]

RebuildKey = Annotated[
    str,
    Header(
        alias="Idempotency-Key",
        description="At most 100 characters. Sent again under the same key it is the same rebuild, "
        "and another try of it after a failure. Without a key each request is a rebuild.",
    ),
]


@router.post("/session/{uuid:session_id}/lock", response=ANSWERS)
async def lock(
    request: HttpRequest, session_id: UUID, response: HttpResponse, prefer: Prefer = ""
) -> Status[SessionDocument]:
    """Lock Tab 1 and have agent 0 write the first memory.

    If Tab 1 is an unchanged starter, the memory and the first turns come with it. No model is
    called, and the answer is 200.
    """
    return await _answer_for(start_play, session_id, prefer, response)


@router.post("/session/{uuid:session_id}/end", response=ANSWERS_TO_BODY)
async def end(
    request: HttpRequest,
    session_id: UUID,
    response: HttpResponse,
    body: CallsBody = NOT_ACCEPTED,
    prefer: Prefer = "",
) -> Status[SessionDocument]:
    """End the chapter as soon as memory covers every prompt.

    The answer is 409 if memory is more than two stretches of prompts behind, or if it needs more
    model calls than two stretches have prompts. The field `calls` of this answer has the number of
    model calls. A client accepts these calls if it sends the request again with `accept_calls`.
    """
    await in_database(request_end, session_id, accept_calls=body.accept_calls)
    was_awaited = await is_awaited(is_ending_over, session_id, session_id, prefer, response)
    chapter = await read_whole_session(session_id)
    if was_awaited and chapter.state not in (State.ENDED, State.NARRATING):
        job = await in_database(read_latest_job, session_id, Job.Kind.SUMMARIZE)
        check_job(job)
        raise JobFailed("The chapter did not end: it was played on meanwhile.", job)
    return Status(200 if was_awaited else 202, chapter)


@router.post("/session/{uuid:session_id}/retry-summary", response=ANSWERS_TO_BODY)
async def retry_memory(
    request: HttpRequest,
    session_id: UUID,
    response: HttpResponse,
    body: CallsBody = NOT_ACCEPTED,
    prefer: Prefer = "",
) -> Status[SessionDocument]:
    """Try again now to write the memory that failed. If the end of the chapter failed, end the
    chapter again.

    The answer is 409 if memory is more than two stretches of prompts behind, or if it needs more
    model calls than two stretches have prompts. The field `calls` of this answer has the number of
    model calls. A client accepts these calls if it sends the request again with `accept_calls`.
    Then one stretch is written now, and one after each prompt.
    """
    await in_database(retry_summary, session_id, accept_calls=body.accept_calls)
    was_awaited = await is_awaited(are_summaries_over, session_id, session_id, prefer, response)
    if was_awaited:
        check_job(await in_database(read_latest_job, session_id, Job.Kind.SUMMARIZE))
    return Status(200 if was_awaited else 202, await read_whole_session(session_id))


@router.post("/session/{uuid:session_id}/build-narrative", response=ANSWERS)
async def build_narrative(
    request: HttpRequest, session_id: UUID, response: HttpResponse, prefer: Prefer = ""
) -> Status[SessionDocument]:
    """Have agent 9 write the narrative of an ended chapter."""
    return await _answer_for(request_build, session_id, prefer, response)


@router.post(
    "/session/{uuid:session_id}/drafts/{uuid:draft_id}/scenes/{int:number}/rebuild",
    response=ANSWERS,
)
async def rebuild_scene(
    request: HttpRequest,
    session_id: UUID,
    draft_id: UUID,
    number: int,
    response: HttpResponse,
    prefer: Prefer = "",
    idempotency_key: RebuildKey = "",
) -> Status[SessionDocument]:
    """Have agent 9 write one scene of a draft again. The draft with the new scene is another draft,
    and the old one is kept.

    The answer is 409 if the chapter has not ended, if it was played on since the draft was written,
    or if the draft's scenes are not recorded (`has_scenes` of its receipts).
    """

    def request_job(session_id: UUID) -> Job:
        return request_rebuild(session_id, draft_id, number, submission_key=idempotency_key)

    return await _answer_for(request_job, session_id, prefer, response)


@router.post("/session/{uuid:session_id}/cancel", response={200: SessionDocument, **CALL})
def cancel(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Stop writing the narrative. Earlier drafts are kept."""
    cancel_build(session_id)
    return read_session(session_id)


@router.post("/session/{uuid:session_id}/reopen", response={200: SessionDocument, **CALL})
def reopen_session(request: HttpRequest, session_id: UUID) -> SessionDocument:
    """Put an ended chapter back in play. Its drafts are kept."""
    reopen(session_id)
    return read_session(session_id)


async def _answer_for(
    request_job: Callable[[UUID], Job | None], session_id: UUID, prefer: str, response: HttpResponse
) -> Status[SessionDocument]:
    """Ask for a job of the chapter, and return the answer of the API.

    If the client waits, the answer is sent when the job is over. Otherwise, or if there is nothing
    to wait for, it is sent at once.
    """
    job = await in_database(request_job, session_id)
    if job is None:
        accept_wait(prefer, response)
        return Status(200, await read_whole_session(session_id))
    was_awaited = await is_awaited(is_job_over, job.job_id, session_id, prefer, response)
    if was_awaited:
        check_job(await in_database(read_job, job.job_id))
    return Status(200 if was_awaited else 202, await read_whole_session(session_id))


async def is_awaited(
    is_over: Callable[[UUID], bool],
    row_id: UUID,
    session_id: UUID,
    prefer: str,
    response: HttpResponse,
) -> bool:
    """Wait for the work for as long as the client asks. Return whether the work is over. Return
    False at once if the client does not ask to wait."""
    seconds = accept_wait(prefer, response)
    if seconds is None:
        return False
    return await wait_until(is_over, row_id, session_id, seconds)


def check_job(job: JobDocument | None) -> None:
    """Raise an error for the client if the job has ended without a result."""
    if job is None:
        return
    if job.status == "cancelled":
        raise JobCancelled("It was cancelled before it was done.", job)
    if job.error:
        raise broken_job(job)
