"""Pages for trying a reply again with one layer of its request changed."""

import contextlib
import hashlib
import json
import uuid
from functools import partial
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.flows.replies.layers_to_try import TriedLayer, TriedReply, read_reply
from agents.flows.replies.trials import Trial, adopt_trial, read_trial, start_trial, stop_trial
from agents.running.database import in_database
from agents.running.recovery import recover
from sessions.chapter.access import get_chapter
from sessions.exceptions import ChapterError, InvalidInput, KeyReused, WrongState
from storyengine.web.header import header_context
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, nothing_new, show

_CHOICE = "calls/try.html"


@require_safe
def show_layers(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    """Show the layers of the reply's request, and a form that changes the layer that the address
    names.

    If the address names an earlier trial, the form has the layer and the text of this trial.
    """
    tried = read_reply(session_id, number)
    earlier = request.GET.get("trial", "")
    if earlier:
        trial = read_trial(session_id, _read_id(earlier))
        named = (one for one in tried.layers if one.name == trial.layer_name)
        return show(request, _CHOICE, _choice(tried, next(named, None), trial.text))
    layer = request.GET.get("layer", "")
    chosen = tried.find_layer(read_whole_number(layer, "The layer")) if layer else None
    return show(request, _CHOICE, _choice(tried, chosen))


# The namespace of submission keys for forms that the user changed after sending them.
_CHANGED = uuid.UUID("5f3c6f2e-9a55-4c8e-8b9e-0d1e6a8f2b11")


@require_POST
async def run(request: HttpRequest, session_id: uuid.UUID, number: int) -> HttpResponse:
    await in_database(get_chapter, session_id)
    layer_number = read_whole_number(request.POST.get("layer", ""), "The layer")
    text = request.POST.get("text", "")
    send = partial(
        start_trial,
        session_id,
        prompt_index=number,
        layer_number=layer_number,
        text=text,
        call_id=request.POST.get("call_id", ""),
    )
    try:
        try:
            opened = await send(submission_key=request.POST.get("submission_key", ""))
        except KeyReused:
            # The user changed the form after sending it, so this is another trial. Its key depends
            # on the text, so that sending the changed form twice makes one trial.
            key = request.POST.get("submission_key", "")
            other = uuid.uuid5(_CHANGED, f"{key}\n{layer_number}\n{text}")
            opened = await send(submission_key=str(other))
    except ChapterError as error:
        # The form is shown again, with the refusal and with the text that the user sent.
        return await sync_to_async(_show_refused)(
            request, session_id, number, layer_number, text, error
        )
    return HttpResponseRedirect(reverse("pages:trial", args=[session_id, opened.attempt.pk]))


def _show_refused(
    request: HttpRequest,
    session_id: uuid.UUID,
    number: int,
    layer_number: int,
    text: str,
    error: ChapterError,
) -> HttpResponse:
    tried = read_reply(session_id, number)
    context = _choice(tried, tried.find_layer(layer_number), text, error)
    return show(request, _CHOICE, context, status=error.status)


@require_safe
def show_trial(request: HttpRequest, session_id: uuid.UUID, trial_id: uuid.UUID) -> HttpResponse:
    recover(session_id)
    return show(request, "calls/trial.html", _context(read_trial(session_id, trial_id)))


@require_safe
def status(request: HttpRequest, session_id: uuid.UUID, trial_id: uuid.UUID) -> HttpResponse:
    """Answer a poll while the trial runs. Without news, the answer has no content."""
    recover(session_id)
    context = _context(read_trial(session_id, trial_id))
    if request.GET.get("seen") == context["version"]:
        return nothing_new()
    return show(request, "calls/_trial_update.html", context)


@require_POST
async def stop(request: HttpRequest, session_id: uuid.UUID, trial_id: uuid.UUID) -> HttpResponse:
    # WrongState means that the trial has ended already. The page then shows its result.
    with contextlib.suppress(WrongState):
        await stop_trial(session_id, trial_id)
    return HttpResponseRedirect(reverse("pages:trial", args=[session_id, trial_id]))


@require_POST
def adopt(request: HttpRequest, session_id: uuid.UUID, trial_id: uuid.UUID) -> HttpResponse:
    adopt_trial(session_id, trial_id)
    return HttpResponseRedirect(reverse("pages:play", args=[session_id]))


def _read_id(text: str) -> uuid.UUID:
    try:
        return uuid.UUID(text)
    except ValueError:
        raise InvalidInput("There is no such trial. Nothing was sent.") from None


def _choice(
    tried: TriedReply,
    chosen: TriedLayer | None,
    text: str | None = None,
    error: ChapterError | None = None,
) -> dict[str, Any]:
    return header_context(tried.chapter, "play") | {
        "tried": tried,
        "chosen": chosen,
        "text": chosen.text if chosen and text is None else text,
        "error": error,
        "submission_key": str(uuid.uuid4()),
    }


def _context(trial: Trial) -> dict[str, Any]:
    attempt = trial.attempt
    shown = [attempt.status, attempt.error, len(trial.new_reply), trial.why_not, trial.is_adopted]
    return header_context(trial.chapter, "play") | {
        "trial": trial,
        "version": hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16],
    }
