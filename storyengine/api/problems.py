"""Turns every refusal and failure into a problem, the error document of RFC 9457."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from django.core.signals import got_request_exception
from django.http import Http404, HttpRequest, HttpResponse
from ninja import NinjaAPI
from ninja.errors import HttpError, ValidationError
from ninja.responses import NinjaJSONEncoder
from pydantic import BaseModel, Field
from pydantic_core import ErrorDetails

from agents.calling.model_access import provider_hosts
from agents.exceptions import (
    BadSetup,
    BudgetReserved,
    BudgetSpent,
    ConsentMissing,
    PriceUnknown,
    PromptTooLong,
    RateLimited,
)
from agents.flows.remembering.memory_calls import CallsNotAccepted
from sessions.exceptions import ChapterError, WrongState
from sessions.payloads import place_in_words, problem_in_words
from storyengine.api.documents import CallsEstimateDocument, JobDocument, PendingTurn
from storyengine.stack.storage_refusals import STORAGE_ERRORS, find_storage_refusal

logger = logging.getLogger("django.request")

CONTENT_TYPE = "application/problem+json"
# One problem has at most this many errors of fields, because a large body could have a hundred
# thousand wrong values.
MAX_FIELD_ERRORS = 20
CALLS_HINT = (
    'POST …/end with {"accept_calls": true} has them made one after the other; '
    "POST …/retry-summary with the same has one made now and one with each prompt."
)
CONSENT_HINT = 'POST /api/consent with {"host": "…", "allowed": true} allows this host.'


class FieldError(BaseModel):
    loc: list[str | int]
    msg: str
    type: str


class Problem(BaseModel):
    """A problem of RFC 9457. A client can tell kinds of problems apart by the `type`."""

    type: str
    title: str
    status: int
    detail: str
    instance: str | None = Field(None, description="The address that was asked.")
    errors: list[FieldError] | None = Field(None, description="What is wrong with which field.")
    pending_turn: PendingTurn | None = Field(
        None, description="The turn that broke, with the GM's words and the text so far."
    )
    job: JobDocument | None = Field(None, description="The job that failed.")
    host: str | None = Field(None, description="The host that is not allowed.")
    calls: int | None = Field(None, description="How many model calls have to be accepted.")
    estimate: CallsEstimateDocument | None = Field(
        None, description="What those will about take; missing where it cannot be told."
    )
    hint: str | None = None


class TurnBroken(ChapterError):
    """The error for an attempt that ended without a reply. The problem shows the text that was
    kept."""

    def __init__(self, detail: str, pending: PendingTurn) -> None:
        self.pending = pending
        super().__init__(detail)


class TurnFailed(TurnBroken):
    status = 502
    title = "The reply failed"


class TurnStopped(TurnBroken):
    title = "The reply was stopped"


class TurnRefused(TurnBroken):
    """The error for an attempt whose call the engine refused, because consent was missing, there
    were too many calls, or the request was too long."""

    def __init__(self, refusal: ChapterError, pending: PendingTurn) -> None:
        self.refusal = refusal
        self.retry_seconds = refusal.retry_seconds
        super().__init__(str(refusal), pending)


class JobBroken(ChapterError):
    """The error for a job that ended without a result while a client waited for it."""

    def __init__(self, detail: str, job: JobDocument | None) -> None:
        self.job = job
        super().__init__(detail)


class JobFailed(JobBroken):
    status = 502
    title = "The work in the background failed"


class JobRefused(JobBroken):
    """The error for a job whose call the engine refused. The client gets the status and the title
    of the refusal."""

    def __init__(self, refusal: type[ChapterError], job: JobDocument) -> None:
        self.refusal = refusal
        self.status, self.title = refusal.status, refusal.title
        self.retry_seconds = refusal.retry_seconds
        super().__init__(job.error, job)


class JobCancelled(JobBroken):
    title = "The work in the background was cancelled"


# The refusals that may end a job, by kind. If another error ended the job, the problem says that
# the job failed.
_REFUSALS = {
    refusal.kind(): refusal
    for refusal in (
        ConsentMissing,
        RateLimited,
        BudgetSpent,
        BudgetReserved,
        PriceUnknown,
        PromptTooLong,
        WrongState,
    )
}


def broken_job(job: JobDocument) -> JobBroken:
    """Return the error for a job that failed. The engine may still try the job again."""
    refusal = _REFUSALS.get(job.refusal)
    return JobRefused(refusal, job) if refusal else JobFailed(job.error, job)


def to_json(data: Any) -> bytes:
    """Return the data as JSON in UTF-8. A lone surrogate becomes an escape, because UTF-8 has no
    code for it."""
    text = json.dumps(data, cls=NinjaJSONEncoder, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace")


def make_problem(
    request: HttpRequest, status: int, kind: str, title: str, detail: str, **more: Any
) -> Problem:
    return Problem(
        type=f"urn:storyengine:{kind}",
        title=title,
        status=status,
        detail=detail,
        instance=request.path,
        **more,
    )


def problem_content(problem: Problem) -> dict[str, Any]:
    return problem.model_dump(exclude_none=True)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(
        to_json(problem_content(problem)),
        status=problem.status,
        content_type=CONTENT_TYPE,
        headers=headers,
    )


def problem_of(request: HttpRequest, error: ChapterError) -> Problem:
    """Return the problem for an error. If the engine refused the call of an attempt or a job, the
    problem has the kind of this refusal."""
    if isinstance(error, TurnRefused):
        problem = problem_of(request, error.refusal)
        return problem.model_copy(update={"pending_turn": error.pending})
    kind = error.refusal if isinstance(error, JobRefused) else type(error)
    more: dict[str, Any] = {}
    if issubclass(kind, ConsentMissing):
        host = error.host if isinstance(error, ConsentMissing) else next(iter(provider_hosts()), "")
        more = {"host": host, "hint": CONSENT_HINT}
    if isinstance(error, BadSetup):
        places = error.problems[:MAX_FIELD_ERRORS]
        more["errors"] = [
            FieldError(loc=_shortened(("body", *loc)), msg=msg, type="setup") for loc, msg in places
        ]
    if isinstance(error, CallsNotAccepted):
        more = {"calls": error.behind.calls, "hint": CALLS_HINT}
        if error.behind.estimate:
            more["estimate"] = CallsEstimateDocument.model_validate(error.behind.estimate)
    if isinstance(error, TurnBroken):
        more["pending_turn"] = error.pending
    if isinstance(error, JobBroken):
        more["job"] = error.job
    return make_problem(request, error.status, kind.kind(), error.title, str(error), **more)


def refusals(*statuses: int) -> dict[int, type[Problem]]:
    """Return the declaration of the problems that an operation may answer, for Ninja.

    `statuses` are the statuses of this operation's own problems. Besides, every operation may
    answer 401, 503 (the database cannot be reached) and 507 (the disk is full).
    """
    return dict.fromkeys((401, *statuses, 503, 507), Problem)


# The problems of operations that read, of operations that change something without a body, and of
# operations with a body.
READ = refusals(404)
CALL = refusals(403, 404, 409, 413, 415)
WRITE = CALL | refusals(400, 422)


def add_problem_handlers(api: NinjaAPI) -> None:
    api.add_exception_handler(ChapterError, _on_chapter_error)
    api.add_exception_handler(ValidationError, _on_invalid)
    api.add_exception_handler(HttpError, _on_http_error)
    api.add_exception_handler(Http404, _on_not_found)
    for storage in STORAGE_ERRORS:
        api.add_exception_handler(storage, _on_storage_error)
    api.add_exception_handler(Exception, _on_bug)


def _on_chapter_error(request: HttpRequest, error: Any) -> HttpResponse:
    return problem_response(problem_of(request, error), error.headers)


def _on_invalid(request: HttpRequest, error: Any) -> HttpResponse:
    errors = [_field_error(entry) for entry in error.errors[:MAX_FIELD_ERRORS]]
    first = errors[0]
    where = place_in_words(first.loc)
    detail = f"{where}: {first.msg}. Nothing was changed."
    return problem_response(
        make_problem(
            request, 422, "invalid-input", "That cannot be accepted", detail, errors=errors
        )
    )


def _field_error(entry: ErrorDetails) -> FieldError:
    loc = _shortened(entry["loc"])
    # In Ninja's path to a wrong field, the name `body` of the view's parameter comes twice. One of
    # the two is removed, because a client does not know the parameter.
    if len(loc) > 1 and loc[:2] == ["body", "body"]:
        del loc[1]
    return FieldError(loc=loc, msg=problem_in_words(entry), type=entry["type"])


def _shortened(place: Sequence[int | str]) -> list[int | str]:
    return [part[:100] if isinstance(part, str) else part for part in place]


def _on_http_error(request: HttpRequest, error: Any) -> HttpResponse:
    # The detail is the message of the parser's error, which Ninja has wrapped in an error of its
    # own.
    detail = str(error.__cause__ or error)
    return problem_response(
        make_problem(request, error.status_code, "unreadable", "Not readable", detail)
    )


def _on_not_found(request: HttpRequest, _error: Any) -> HttpResponse:
    return problem_response(unknown_path(request))


def unknown_path(request: HttpRequest) -> Problem:
    return make_problem(
        request,
        404,
        "unknown-address",
        "Nothing there",
        "There is nothing at this address. GET /api/docs lists what there is.",
    )


def _on_storage_error(request: HttpRequest, error: Any) -> HttpResponse:
    refusal = find_storage_refusal(error)
    return _on_chapter_error(request, refusal) if refusal else _on_bug(request, error)


def _on_bug(request: HttpRequest, error: Any) -> HttpResponse:
    """Log and signal a bug as Django does, and answer with a problem."""
    got_request_exception.send(sender=None, request=request)
    logger.error("Internal Server Error: %s", request.path, exc_info=error)
    return problem_response(
        make_problem(
            request,
            500,
            "internal-error",
            "The program failed",
            "The program failed while it answered. Its log says where.",
        )
    )
