"""Stops or follows a reply on another web process than the one that writes it."""

import html
import re
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from chaos.client import ANSWER_SECONDS, NETWORK_ERRORS, Client, Told, was_shown
from chaos.journal import Key, Words
from testing.http_calls import RunError, stream

_Result = TypeVar("_Result")

LOOK_SECONDS = 0.02
# What a page shows before a text that replaces the text so far.
_NOTE = re.compile(r'<span class="reply-note">.*?</span> ', re.DOTALL)


def stop_elsewhere(client: Client, key: Key, words: Words) -> tuple[Told, bool]:
    """Send the prompt to one web process, and stop its reply on the other one. Return the answer to
    the prompt, and whether the reply was stopped."""

    def stop(other: Client, _attempt_id: str) -> bool:
        return other.send("POST", f"/api/session/{key[0]}/stop").status == 200

    told, has_stopped = _beside(client, key, words, stop)
    return told, bool(has_stopped) and told.status == 409


def follow_elsewhere(client: Client, key: Key, words: Words) -> tuple[Told, bool]:
    """Send the prompt to one web process, and follow its reply on the other one. Return the answer
    to the prompt, and whether words were followed to the end.

    Record a violation if the other process has shown another text than the reply.
    """

    def follow(other: Client, attempt_id: str) -> str | None:
        return _follow_page(other, f"/chapters/{key[0]}/attempts/{attempt_id}/stream")

    told, shown = _beside(client, key, words, follow)
    if told.status == 201 and shown and not was_shown(told.body["events"], shown):
        client.complain("followers elsewhere see the reply", key[0], f"shown {shown[-200:]!r}")
    return told, bool(shown)


def _beside(
    client: Client, key: Key, words: Words, act: Callable[[Client, str], _Result]
) -> tuple[Told, _Result | None]:
    """Send the prompt to one web process. Act on the other one as soon as it knows of the reply.
    Return the answer to the prompt, and the result of the act, or None if the other process has
    known of no reply."""
    writer, other = client.apart()
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(writer.prompt, key, words)
        attempt_id = _running_attempt(other, key, asked)
        result = act(other, attempt_id) if attempt_id else None
        return asked.result(), result


def _running_attempt(other: Client, key: Key, asked: "Future[Told]") -> str:
    """Return the id of the attempt of this prompt as soon as its text has begun, or "" if the
    prompt was answered before."""
    while not asked.done():
        pending = _pending_turn(other, key)
        if pending and pending["status"] == "running":
            return str(pending["attempt_id"])
        time.sleep(LOOK_SECONDS)
    return ""


def _pending_turn(other: Client, key: Key) -> dict[str, Any] | None:
    told = other.send("GET", f"/api/session/{key[0]}")
    pending = told.body.get("pending_turn") if told.status == 200 else None
    is_own = pending and pending["submission_key"] == key[1]
    return pending if is_own else None


def _follow_page(other: Client, path: str) -> str | None:
    """Return the text that a page has shown when the reply ended, or None if its stream was
    broken."""
    shown, has_ended = "", False
    events = stream(other.next_server(), path, method="GET", timeout=ANSWER_SECONDS)
    try:
        for event in events:
            if event.name in ("text", "restart"):
                text = html.unescape(_NOTE.sub("", event.data))
                shown = text if event.name == "restart" else shown + text
            has_ended = has_ended or event.name == "ended"
    except TimeoutError:
        other.complain("every request is answered", path, "the stream hung for a minute")
    except (*NETWORK_ERRORS, RunError) as error:
        other.complain("streams end with a word", path, repr(error))
    if not has_ended:
        other.complain("streams end with a word", path, "the end of the reply never came")
    return shown if has_ended else None
