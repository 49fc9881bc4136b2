"""Shows a refusal as a message on the present page, or as a page of its own. The words that the
user typed are kept."""

from typing import cast

from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse
from django.urls import reverse
from django.utils.deprecation import MiddlewareMixin

from agents.exceptions import ConsentMissing
from sessions.exceptions import ChapterError
from storyengine.stack.storage_refusals import find_storage_refusal
from storyengine.web.render import HttpRequest, show

# The places for the message. htmx uses the first of them that the page has: inside the form, after
# the form, or at the top of the page.
_SLOT = "find .refusal, next .refusal, #page-refusal"


class RefusalMiddleware(MiddlewareMixin):
    """A middleware that turns a ChapterError of a view into an answer: a refusal with the status of
    the error.

    If the database cannot be reached or a disk is full, the middleware also answers with a refusal.
    """

    def process_exception(
        self, request: DjangoHttpRequest, error: Exception
    ) -> HttpResponse | None:
        refusal = error if isinstance(error, ChapterError) else find_storage_refusal(error)
        if refusal is None:
            return None
        response = refuse(cast(HttpRequest, request), refusal)
        for name, value in refusal.headers.items():
            response[name] = value
        return response


def refuse(request: HttpRequest, error: ChapterError) -> HttpResponse:
    context = {
        "error": error,
        "reload_address": _way_back(request) if error.status in (409, 423) else "",
        "consent_address": _consent_address(request) if isinstance(error, ConsentMissing) else "",
    }
    if request.htmx:
        response = show(request, "_refusal.html", context, status=error.status)
        response["HX-Retarget"] = _SLOT
        response["HX-Reswap"] = "innerHTML"
        return response
    back, back_label = _page_before(request, is_gone=error.status == 404)
    context |= {
        "back": back,
        "back_label": back_label,
        "words": _sent_words(request),
    }
    return show(request, "refusal.html", context, status=error.status)


def _consent_address(request: HttpRequest) -> str:
    session_id = _session_id(request)
    back = f"?chapter={session_id}" if session_id else ""
    return reverse("pages:consent") + back


def _way_back(request: HttpRequest) -> str:
    session_id = _session_id(request)
    return reverse("pages:chapter", args=[session_id]) if session_id else reverse("pages:library")


def _page_before(request: HttpRequest, *, is_gone: bool) -> tuple[str, str]:
    """Return the address of the page that a refusal links back to, and the text of the link."""
    session_id = None if is_gone else _session_id(request)
    if session_id is None:
        models = reverse("pages:models")
        if request.path.startswith(models):
            return models, "Back to the models"
        return reverse("pages:library"), "All stories"
    models = reverse("pages:chapter-models", args=[session_id])
    if request.path.startswith(f"{models}/"):
        return models, "Back to the models of this chapter"
    return _way_back(request), "Back to the chapter"


def _session_id(request: HttpRequest) -> object | None:
    match = request.resolver_match
    return match.kwargs.get("session_id") if match else None


def _sent_words(request: HttpRequest) -> list[str]:
    """Return the texts of the form that a person may have typed. The page shows these texts, so
    that the person can copy them."""
    hidden = {
        *("csrfmiddlewaretoken", "submission_key", "agent_slot", "agent_count"),
        *("shape", "host", "chapter", "call_id", "layer", "number", "attempt_id", "all"),
        *("accept_calls", "act", "thoughts", "seen_values"),
        # These fields are on the pages about models. A key is never shown again.
        *("key", "agent", "server", "each", "back", "forget", "seen"),
    }
    return [
        str(text) for name, text in request.POST.items() if name not in hidden and str(text).strip()
    ]
