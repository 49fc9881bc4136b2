"""The views for monitoring programs."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from agents.running.database import in_database
from storyengine.access.api_access import Verdict, atry_token, is_right
from storyengine.operations.exposition import render_metrics
from storyengine.operations.readiness import Check, Readiness, read_readiness


@require_safe
async def readyz(request: HttpRequest) -> JsonResponse:
    """Answer whether the program can work.

    Load balancers have no token, so everybody gets an answer. If a password is set, only callers
    with the token get figures.
    """
    found = await read_readiness()
    may_know = not settings.PASSWORD or await _has_token(request, found)
    answer: dict[str, object] = {
        "status": "ready" if found.is_ready else "not ready",
        "checks": {check.name: _describe(check, may_know=may_know) for check in found.checks},
    }
    if may_know:
        answer["provider"] = found.provider
    return JsonResponse(answer, status=200 if found.is_ready else 503)


@require_safe
async def metrics(request: HttpRequest) -> HttpResponse:
    """Answer with the metrics for Prometheus. The caller needs the API's token or a login (see
    storyengine.access.login_gate)."""
    return HttpResponse(await in_database(render_metrics), content_type=CONTENT_TYPE_LATEST)


async def _has_token(request: HttpRequest, found: Readiness) -> bool:
    """Return whether the request has the right token. A wrong token is counted if the database
    answers."""
    if any(check.name == "database" and check.is_ok for check in found.checks):
        return await atry_token(request) is Verdict.RIGHT
    return is_right(request)


def _describe(check: Check, *, may_know: bool) -> dict[str, object]:
    outcome: dict[str, object] = {"ok": check.is_ok}
    return {**outcome, "ms": check.ms, **check.details} if may_know else outcome
