"""Makes trials: attempts at the latest turn with one layer of the request changed.

A trial is committed unchosen. No request, memory or draft uses it until the user chooses it.
"""

import contextlib
import uuid
from dataclasses import dataclass
from functools import partial

from agents.calling.calls import check_allowed
from agents.calling.prepared_calls import prepare_call
from agents.calling.records.call_records import (
    CallRecord,
    calls_of,
    record_of,
)
from agents.exceptions import ModelNotReady
from agents.flows.replies.choosing import choose_reply
from agents.flows.replies.composing import writer_of
from agents.flows.replies.layers_to_try import base_of, changed_layer_of, read_reply, with_change
from agents.flows.replies.turns import run_reply, stop_running
from agents.running.database import in_database
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput, KeyReused, TurnInFlight, UnknownTurn, WrongState
from sessions.language.text import clean_text, seen, tidied
from sessions.layer_words import layer_in_words
from sessions.models import Attempt, Session
from sessions.play.attempts import OpenedAttempt, clean_key, open_trial
from sessions.play.breaking import recover_dead_attempts
from sessions.play.committing import text_of
from sessions.play.latest_turn import why_not_changeable


@dataclass(frozen=True)
class Trial:
    """A trial, with the reply that it was made from. `call` is None until a model was called.

    The text of a reply that has only thoughts is "".
    """

    attempt: Attempt
    chapter: Session
    prompt_index: int
    reply: str
    base: CallRecord | None
    call: CallRecord | None
    is_adopted: bool
    # The reason why no other attempt at this turn can be chosen now, or "" if another attempt can
    # be chosen.
    why_not: str
    new_reply: str

    @property
    def is_done(self) -> bool:
        return self.attempt.status == Attempt.Status.COMMITTED

    @property
    def can_adopt(self) -> bool:
        return self.is_done and not (self.is_adopted or self.why_not)

    @property
    def layer_number(self) -> int:
        return int(changed_layer_of(self.attempt)["layer"])

    @property
    def layer_name(self) -> str:
        return str(changed_layer_of(self.attempt)["layer_name"])

    @property
    def text_before(self) -> str:
        return str(changed_layer_of(self.attempt)["text_before"])

    @property
    def text(self) -> str:
        """The layer's text in this trial, or "" if the layer was left out."""
        return str(changed_layer_of(self.attempt)["text"])


async def start_trial(
    session_id: uuid.UUID,
    *,
    layer_number: int,
    text: str,
    submission_key: str,
    call_id: str = "",
    prompt_index: int | None = None,
) -> OpenedAttempt:
    """Start a trial: write the latest reply once more, with the text of one layer replaced.

    An empty text leaves the layer out. `call_id` names the call that wrote the reply. A request
    with the id of another call is refused. If the same trial is sent again under the same key, no
    second trial is made, but a broken trial runs again. Raises a ChapterError before anything is
    sent to a model.
    """
    return await run_reply(
        partial(
            _open_trial,
            session_id,
            layer_number=layer_number,
            text=text,
            submission_key=submission_key,
            call_id=call_id,
            prompt_index=prompt_index,
        )
    )


async def stop_trial(session_id: uuid.UUID, attempt_id: uuid.UUID) -> Attempt:
    """Stop a running trial. Its text so far is shown, but cannot be kept. Raises WrongState if the
    trial is over already."""
    attempt = await in_database(lambda: _find(get_chapter(session_id), attempt_id))
    if not attempt.is_running:
        raise WrongState("This trial is over already.")
    return await stop_running(attempt)


def adopt_trial(session_id: uuid.UUID, attempt_id: uuid.UUID) -> Attempt:
    """Choose the trial's reply. The reply that was chosen before is kept as another attempt.

    Raises WrongState if the trial is not committed, or if play has continued after its turn.
    """
    chapter = get_chapter(session_id)
    attempt = _find(chapter, attempt_id)
    if attempt.status != Attempt.Status.COMMITTED or attempt.turn is None:
        raise WrongState("This trial has not come to a whole reply, so there is none to use.")
    if attempt.turn.chosen_id == attempt.pk:
        return attempt
    return choose_reply(session_id, attempt.turn.number, attempt.pk)


def read_trial(session_id: uuid.UUID, attempt_id: uuid.UUID) -> Trial:
    """Return the trial with this id. Raises UnknownTurn if the chapter has no such trial."""
    chapter = get_chapter(session_id)
    attempt = _find(chapter, attempt_id)
    assert attempt.source is not None, "A trial is made from another attempt."
    assert attempt.turn is not None, "A trial is an attempt at a turn."
    base = base_of(attempt)
    calls = calls_of(chapter).filter(attempt=attempt, agent=attempt.agent)
    own = calls.order_by("created_at").last()
    is_done = attempt.status == Attempt.Status.COMMITTED
    return Trial(
        attempt=attempt,
        chapter=chapter,
        prompt_index=attempt.turn.number,
        reply=text_of(attempt.source),
        base=record_of(chapter, base) if base else None,
        call=record_of(chapter, own) if own else None,
        is_adopted=attempt.turn.chosen_id == attempt.pk,
        why_not=why_not_changeable(chapter, attempt.turn.number),
        new_reply=text_of(attempt) if is_done else attempt.partial_text,
    )


def _open_trial(
    session_id: uuid.UUID,
    *,
    layer_number: int,
    text: str,
    submission_key: str,
    call_id: str,
    prompt_index: int | None,
) -> OpenedAttempt:
    key = clean_key(submission_key)
    trials = get_chapter(session_id).attempts.filter(kind=Attempt.Kind.TRIAL, submission_key=key)
    earlier = trials.first()
    if earlier is not None and earlier.has_died and recover_dead_attempts(session_id):
        # The database's clock decides whether the attempt has died.
        earlier.refresh_from_db()
    if earlier is not None and not earlier.is_broken:
        return _answer_again(earlier, call_id, layer_number, text)
    tried = read_reply(session_id, prompt_index)
    if call_id not in ("", str(tried.call.artifact.pk)):
        raise WrongState(
            "The reply was written again meanwhile. Nothing was sent; look at the new one first."
        )
    changed = tried.find_layer(layer_number)
    text = clean_text(
        text, limit=changed.limit, label=f"The new text of {layer_in_words(changed.name)}"
    )
    if text == changed.text:
        raise InvalidInput(
            "Nothing is changed in this text, so nothing was sent. "
            "Change it, or have the reply written again on Tab 2."
        )
    model = writer_of(tried.attempt)
    check_allowed(session_id, model.agent)
    changed_layer: dict[str, object] = {
        "call_id": str(tried.call.artifact.pk),
        "layer": layer_number,
        "layer_name": changed.name,
        "text_before": changed.text,
        "text": text,
    }
    # Prepare the call before the trial is stored, so that too long a request is refused.
    with contextlib.suppress(ModelNotReady):
        prepare_call(model, session_id, lambda: with_change(tried.layers, layer_number, text))
    try:
        return open_trial(
            session_id, source=tried.attempt, changed_layer=changed_layer, submission_key=key
        )
    except TurnInFlight:
        # The same form was sent twice at the same time, and the other request has stored the trial.
        return OpenedAttempt(trials.get(), must_run=False)


def _answer_again(trial: Attempt, call_id: str, layer_number: int, text: str) -> OpenedAttempt:
    """Return the trial that was stored under this key, even if play has continued since.

    Raises KeyReused if the stored trial has another text.
    """
    change = changed_layer_of(trial)
    # The text was stored in its clean form.
    sent = (layer_number, seen(tidied(text)))
    if sent != (change["layer"], change["text"]) or call_id not in ("", change.get("call_id")):
        raise KeyReused(
            "This trial was sent already, with another text. "
            "Nothing was changed; send yours again under an id of its own."
        )
    return OpenedAttempt(trial, must_run=False)


def _find(chapter: Session, attempt_id: uuid.UUID) -> Attempt:
    trials = chapter.attempts.filter(kind=Attempt.Kind.TRIAL, pk=attempt_id)
    trial = trials.select_related("turn", "source", "session").first()
    if trial is None:
        raise UnknownTurn("There is no such trial in this chapter.")
    return trial
