"""The views that start, stop and stream replies. agents.flows.replies.turns writes the
replies."""

import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from functools import partial

from asgiref.sync import sync_to_async
from django.http import HttpRequest as DjangoHttpRequest
from django.http import HttpResponse, StreamingHttpResponse
from django.template.loader import render_to_string
from django.utils.html import escape, format_html
from django.views.decorators.http import require_POST, require_safe

from agents.flows.replies.turns import start_prompt, start_reroll, stop_reply
from agents.flows.replies.warmup import warm_reply
from agents.running.database import in_database
from agents.running.following import follow
from agents.running.live import ReplyText, StepChanges
from sessions.chapter.access import get_chapter
from sessions.chapter.cast import check_takes_part
from sessions.exceptions import KeyReused, TurnInFlight, UnknownChapter
from sessions.language.text import with_line_feeds
from sessions.models import Attempt
from sessions.play.attempts import EVERYBODY, OpenedAttempt
from storyengine.stack.storage_refusals import STORAGE_ERRORS, find_storage_refusal
from storyengine.tabs.play.play_page import play_context, read_play
from storyengine.tabs.play.play_tab import UPDATE, answer_play, read_given
from storyengine.web.keep_alive import KEEP_ALIVE, KEEP_ALIVE_SECONDS
from storyengine.web.numbers import read_whole_number
from storyengine.web.render import HttpRequest, nothing_new

# The end of the key of an attempt that was written again with other words. It follows the key of
# the form.
WRITTEN_AGAIN = "-written"

# A function that gets a key and starts a reply under this key.
Start = Callable[..., Awaitable[OpenedAttempt]]


@require_POST
async def send_prompt(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Start the reply to a prompt. If the form names a turn in `again`, its words are other words
    for this turn, and the reply is another attempt at it."""
    key = request.POST.get("submission_key", "")
    number = request.POST.get("again", "")
    # A key belongs to one kind of attempt, and the form may have been sent in vain as a new prompt
    # before.
    again = read_whole_number(number, "The prompt") if number else None
    own_key = key + WRITTEN_AGAIN if again else key
    start = _start_again(request, session_id, again) if again else _start_new(request, session_id)
    try:
        await start(submission_key=own_key)
    except KeyReused:
        # The key was used already: the browser lost the answer to the first submission, and the GM
        # has changed the words since then. So this is a new prompt.
        await start(submission_key=str(uuid.uuid4()))
    except TurnInFlight:
        # A reply is being written. If it is the reply to this prompt, the browser only lost the
        # answer and has sent the form again.
        if not await sync_to_async(_has_arrived)(session_id, own_key):
            raise
    response = await sync_to_async(answer_play)(request, session_id, is_accepted=True)
    response["HX-Trigger-After-Swap"] = json.dumps({"prompt-accepted": {"key": key}})
    return response


def _start_new(request: HttpRequest, session_id: uuid.UUID) -> Start:
    return partial(
        start_prompt,
        session_id,
        actor=read_actor(request),
        words=request.POST.get("user_text", ""),
        witnesses=_read_witnesses(request),
        given=read_given(request),
    )


def _start_again(request: HttpRequest, session_id: uuid.UUID, number: int) -> Start:
    witnesses = _read_witnesses(request)
    return partial(
        start_reroll,
        session_id,
        number=number,
        actor=read_actor(request),
        words=request.POST.get("user_text", ""),
        # A re-roll that names no witnesses would have the witnesses of the attempt before.
        witnesses=EVERYBODY if witnesses is None else witnesses,
        given=read_given(request),
    )


def read_actor(request: HttpRequest) -> int | None:
    """Return the slot of the character that the form addresses. If the field is empty, a narrator
    answers, and the result is None."""
    slot = request.POST.get("agent_slot", "none")
    return read_whole_number(slot, "The agent") if slot else None


@require_POST
async def reroll(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    await start_reroll(session_id, submission_key=request.POST.get("submission_key", ""))
    return await sync_to_async(answer_play)(request, session_id)


@require_POST
async def stop(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    await stop_reply(session_id)
    # A page with a Stop button follows the stream of the reply, and gets its new content from the
    # stream when the reply ends. So the answer to htmx has no content.
    return nothing_new() if request.htmx else await sync_to_async(answer_play)(request, session_id)


@require_POST
async def warm(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    """Let the embedded model read the beginning of the next request in advance. A browser asks for
    this when the GM begins to type."""
    slot = None
    if posted := request.POST.get("agent_slot", ""):
        slot = read_whole_number(posted, "The agent")
        await sync_to_async(_check_slot)(session_id, slot)
    await warm_reply(session_id, slot)
    return nothing_new()


@require_safe
async def stream(
    request: HttpRequest, session_id: uuid.UUID, attempt_id: uuid.UUID
) -> StreamingHttpResponse:
    """Stream a reply as server-sent events.

    The events `text` and `restart` have escaped text, and `ended` is the last event. `change` has
    the number of a step that has changed something. `trouble` has a message for the operator, who
    has to act before the reply can be stored.
    """
    await in_database(_check_attempt, session_id, attempt_id)
    response = StreamingHttpResponse(
        _frames(request, session_id, attempt_id), content_type="text/event-stream"
    )
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


async def _frames(
    request: DjangoHttpRequest, session_id: uuid.UUID, attempt_id: uuid.UUID
) -> AsyncIterator[str]:
    try:
        async with aclosing(follow(attempt_id, pause=KEEP_ALIVE_SECONDS)) as parts:
            async for part in parts:
                if part is None:
                    yield KEEP_ALIVE
                elif isinstance(part, ReplyText):
                    yield _frame("restart" if part.is_restart else "text", _written(part))
                elif isinstance(part, StepChanges):
                    yield _frame("change", str(part.step))
                else:
                    yield _frame("ended", await in_database(_render_ended, request, part.attempt))
    except Attempt.DoesNotExist:
        yield _frame("ended", await in_database(render_to_string, "play/_gone.html"))
    except STORAGE_ERRORS as error:
        if (refusal := find_storage_refusal(error)) is None:
            raise
        # The stream ends after an error, and the browser then asks for a new stream. So a message
        # is needed only for an error that does not pass by itself.
        if refusal.retry_seconds is None:
            yield _frame("trouble", render_to_string("_refusal.html", {"error": refusal}))


def _written(part: ReplyText) -> str:
    """Return the HTML of the text, after a note that says why it replaces the text before."""
    if not part.note:
        return escape(part.text)
    return format_html('<span class="reply-note">{}</span> {}', part.note, part.text)


def _frame(event: str, html: str) -> str:
    lines = with_line_feeds(html).split("\n")
    data = "".join(f"data: {line}\n" for line in lines)
    return f"event: {event}\n{data}\n"


def _render_ended(request: DjangoHttpRequest, attempt: Attempt) -> str:
    """Return the HTML of the play area after the reply, with an announcement for screen readers."""
    try:
        page = read_play(attempt.session_id)
    except UnknownChapter:
        return render_to_string("play/_gone.html")
    # After a committed prompt, the page already shows the next character's panel, or a panel that
    # the GM has chosen. So the panels are not replaced.
    is_committed = attempt.status == Attempt.Status.COMMITTED
    context = play_context(page) | {"with_panels": not is_committed, "finished": attempt}
    # The browser may get the end of the stream late, after the chapter has ended. With the shape
    # "playing", the page polls once more and is redirected.
    context["asks_as"] = "playing"
    return render_to_string(UPDATE, context, request)


def _read_witnesses(request: HttpRequest) -> list[int] | None:
    """Return the numbers of the witnesses that the form names, or None for everybody.

    Everybody is a witness if the form has no boxes for witnesses, or if all its boxes are ticked.
    `witnesses_of` is the number of boxes. A form that repeats a prompt has no boxes and lists the
    witnesses, of whom there may be none: then `witnesses_of` is "listed".
    """
    ticked = request.POST.getlist("witnesses")
    boxes = request.POST.get("witnesses_of")
    if boxes is None or boxes == str(len(ticked)):
        return None
    return [read_whole_number(slot, "A witness") for slot in ticked]


def _has_arrived(session_id: uuid.UUID, key: str) -> bool:
    """Return whether the prompt with this key was stored, and is running or committed."""
    attempt = get_chapter(session_id).attempts.filter(submission_key=key).first()
    return attempt is not None and (attempt.is_running or attempt.turn_id is not None)


def _check_attempt(session_id: uuid.UUID, attempt_id: uuid.UUID) -> None:
    if not get_chapter(session_id).attempts.filter(pk=attempt_id).exists():
        raise UnknownChapter("There is no such reply in this chapter.")


def _check_slot(session_id: uuid.UUID, slot: int) -> None:
    check_takes_part(get_chapter(session_id), slot)
