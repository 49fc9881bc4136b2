"""Sends a reply as server-sent events or as one answer. The reply is written even if the client
disconnects.

While a reply is sent, no query is made between two pieces of its text.
"""

from asyncio import timeout
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from agents.modes.registry import find_agent
from agents.running.database import in_database
from agents.running.following import follow, read_step_changes
from agents.running.live import ReplyEnded, ReplyPart, ReplyText, StepChanges
from sessions.exceptions import ChapterError, UnknownChapter
from sessions.models import Attempt
from sessions.play.attempts import OpenedAttempt
from storyengine.api.document_reading import answer_of, read_answer
from storyengine.api.documents import ChangeDocument, TurnAnswer, pending_document
from storyengine.api.problems import (
    TurnFailed,
    TurnRefused,
    TurnStopped,
    problem_content,
    problem_of,
    to_json,
)
from storyengine.api.waiting import accept_wait
from storyengine.stack.storage_refusals import STORAGE_ERRORS, find_storage_refusal
from storyengine.web.keep_alive import KEEP_ALIVE, KEEP_ALIVE_SECONDS


async def await_answer(opened: OpenedAttempt) -> TurnAnswer:
    """Wait for the reply, and return the committed turn. Raises TurnBroken if the reply failed or
    was stopped."""
    async with aclosing(_parts(opened)) as parts:
        async for part in parts:
            if isinstance(part, ReplyEnded):
                return await _answer(part)
    raise AssertionError("A followed reply ended without saying how.")


async def is_answer_awaited(opened: OpenedAttempt, prefer: str, response: HttpResponse) -> bool:
    """Wait for the reply for as long as the client asks. Return whether the reply is there. Return
    False at once if the client does not ask to wait.

    Raises TurnBroken if the reply failed or was stopped.
    """
    seconds = accept_wait(prefer, response)
    if seconds is None:
        return False
    try:
        async with timeout(seconds):
            await await_answer(opened)
    except TimeoutError:
        return False
    return True


def stream_answer(request: HttpRequest, opened: OpenedAttempt) -> StreamingHttpResponse:
    return StreamingHttpResponse(
        _events(request, opened),
        content_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(request: HttpRequest, opened: OpenedAttempt) -> AsyncGenerator[bytes]:
    """Yield an event `token` for each piece of text, an event `change` for each step that changed
    something, and then one event `turn` or `error`."""
    shown: list[str] = []
    told: set[int] = set()
    try:
        async with aclosing(_parts(opened)) as parts:
            async for part in parts:
                if part is None:
                    yield KEEP_ALIVE.encode()
                elif isinstance(part, ReplyText):
                    if token := _token(part, shown):
                        yield _event("token", token)
                elif isinstance(part, StepChanges):
                    told.add(part.step)
                    yield _change(part)
                else:
                    answer = await _answer(part)
                    # Some text of the reply may not have been sent yet if another process wrote the
                    # reply. So the whole reply is compared with the sent text.
                    said = (event.text for event in answer.events if event.role == "agent")
                    whole = ReplyText("\n\n".join(said), is_restart=True)
                    if token := _token(whole, shown):
                        yield _event("token", token)
                    for step in await _untold_changes(part.attempt, told):
                        yield _change(step)
                    yield _event("turn", answer.model_dump())
    except (ChapterError, *STORAGE_ERRORS) as error:
        refusal = error if isinstance(error, ChapterError) else find_storage_refusal(error)
        if refusal is None:
            raise
        yield _event("error", problem_content(problem_of(request, refusal)))


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), to_json(data))


def _change(step: StepChanges) -> bytes:
    changes = [ChangeDocument.model_validate(one).model_dump() for one in step.changes]
    return _event("change", {"step": step.step, "changes": changes})


async def _untold_changes(attempt: Attempt, told: set[int]) -> list[StepChanges]:
    """Return the changes that the stream has not sent yet, because it began after their steps or
    because another process wrote the reply."""
    agent = find_agent(attempt.agent, attempt.actor)
    if agent is None or not agent.tools:
        return []
    steps = await in_database(read_step_changes, attempt)
    return [one for one in steps if one.step not in told]


def _token(part: ReplyText, shown: list[str]) -> dict[str, Any] | None:
    """Return the data of the next event `token`, or None if there is no new text.

    With `is_restart`, the client has to replace all text that it has received by the text of this
    event. A `note` says why.
    """
    added = part.text
    if part.note:
        shown[:] = [part.text]
        return {"text": part.text, "is_restart": True, "note": part.note}
    if part.is_restart:
        before = "".join(shown)
        shown.clear()
        if not part.text.startswith(before):
            shown.append(part.text)
            return {"text": part.text, "is_restart": True}
        shown.append(before)
        added = part.text[len(before) :]
    shown.append(added)
    return {"text": added} if added else None


async def _parts(opened: OpenedAttempt) -> AsyncGenerator[ReplyPart | None]:
    """Yield the parts of the reply until the reply ends. Yield None from time to time while there
    is no new part."""
    is_over = not opened.must_run
    if is_over:
        yield ReplyEnded(opened.attempt)
    try:
        while not is_over:
            followed = follow(opened.attempt.pk, pause=KEEP_ALIVE_SECONDS)
            async with aclosing(followed) as parts:
                async for part in parts:
                    is_over = isinstance(part, ReplyEnded) and not part.attempt.is_running
                    # `follow` may end while the attempt still runs, because the task broke off or
                    # another run began. Then the loop follows the attempt again.
                    if is_over or not isinstance(part, ReplyEnded):
                        yield part
    except Attempt.DoesNotExist:
        raise UnknownChapter("The chapter was reset while this reply was being written.") from None


async def _answer(ended: ReplyEnded) -> TurnAnswer:
    """Return the document of the committed turn. If the attempt failed or was stopped, raise
    TurnBroken with the words and text that were kept."""
    attempt, refusal = ended.attempt, ended.refusal
    if ended.events:
        return answer_of(attempt, ended.events)
    if attempt.status == Attempt.Status.COMMITTED:
        return await in_database(read_answer, attempt)
    pending = pending_document(attempt)
    if refusal is not None:
        raise TurnRefused(refusal, pending)
    if attempt.error:
        raise TurnFailed(attempt.error, pending)
    raise TurnStopped(
        "The reply was stopped. The text so far is kept: keep it, retry, or go on.", pending
    )
