"""Makes trials: attempts at the latest turn with one layer of the request changed.

A trial is committed unchosen. No request, memory or draft uses it until the user chooses it.
"""

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from agents.calling.call_records import (
    CallRecord,
    CallsBehind,
    calls_behind_prompt,
    calls_of,
    record_of,
)
from agents.calling.calls import check_allowed
from agents.calling.prepared_calls import PreparedCall, prepare_call
from agents.calling.stored_prompts import read_layers
from agents.exceptions import ModelNotReady
from agents.flows.choosing import choose_reply
from agents.flows.composing import compose_reply, cues_of
from agents.flows.replies import stop_running, store_and_start
from agents.models import LLMArtifact
from agents.modes import agent_of
from agents.prompting.escaping import without_forgeries
from agents.prompting.forms.tool_forms import TOOLS
from agents.prompting.layers import Layer, Piece
from agents.prompting.sent_layers import SentLayer
from agents.running.database import in_database
from sessions.access import get_chapter
from sessions.attempts import (
    OpenedAttempt,
    clean_key,
    latest_turn,
    open_trial,
    why_not_changeable,
)
from sessions.breaking import recover_dead_attempts
from sessions.committing import text_of
from sessions.exceptions import InvalidInput, KeyReused, TurnInFlight, UnknownTurn, WrongState
from sessions.layer_words import layer_in_words
from sessions.models import Attempt, Session
from sessions.text import clean_text, with_line_feeds

# The most characters of a changed layer. A layer that was longer when it was sent may stay as long
# as it was.
LAYER_CHAR_LIMIT = 60_000


@dataclass(frozen=True)
class TriedLayer:
    """A layer of a sent request, which a trial may change. `number` counts from 1."""

    number: int
    sent: SentLayer

    @property
    def name(self) -> str:
        return self.sent.name or f"(layer {self.number})"

    @property
    def text(self) -> str:
        """The layer's text without its heading."""
        return self.sent.body

    @property
    def limit(self) -> int:
        return max(LAYER_CHAR_LIMIT, len(self.text))

    @property
    def layer(self) -> Layer:
        """The layer as it was sent. It is never trimmed, and its texts are not escaped again."""
        pieces = (Piece(part, has_elements=True) for part in self.sent.parts)
        return self.layer_of(pieces)

    def changed_to(self, text: str) -> Layer:
        """Return the layer with another text.

        If the sent text had no elements of the engine, elements in the new text are escaped, as in
        the GM's words.
        """
        has_elements = self.text != without_forgeries(self.text)
        return self.layer_of([Piece(text, has_elements=has_elements)])

    def layer_of(self, pieces: Iterable[Piece]) -> Layer:
        sent = self.sent
        return Layer(
            sent.name,
            tuple(pieces),
            role=sent.role,
            has_heading=sent.has_heading,
            separator=sent.separator,
        )


@dataclass(frozen=True)
class TriedReply:
    """The latest reply, the call that wrote the reply, and the layers of this call's request."""

    chapter: Session
    attempt: Attempt
    prompt_index: int
    reply: str
    call: CallRecord
    layers: list[TriedLayer]

    def find_layer(self, number: int) -> TriedLayer:
        if not 1 <= number <= len(self.layers):
            raise InvalidInput("This prompt has no such part. Nothing was sent.")
        return self.layers[number - 1]


@dataclass(frozen=True)
class Trial:
    """A trial, with the reply from which it was made. `call` is None until a model was called.

    The text of a reply that has only thoughts is "".
    """

    attempt: Attempt
    chapter: Session
    prompt_index: int
    reply: str
    base: CallRecord | None
    call: CallRecord | None
    is_adopted: bool
    # The reason why no other attempt at this turn can be chosen now, or "" if one can.
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


def why_not_tried(chapter: Session, prompt_index: int, behind: CallsBehind) -> str:
    """Return the reason why the reply to this prompt cannot be tried again, or "" if it can."""
    if reason := why_not_changeable(chapter, prompt_index):
        return f"It cannot be tried again with a changed prompt: {reason}"
    if behind.came_with_starter:
        return (
            "It cannot be tried again with a changed prompt: it came with the starter, so no model "
            "wrote it."
        )
    if behind.chosen is None or not behind.chosen.is_chosen:
        return (
            "It cannot be tried again with a changed prompt: the call that it came from is not "
            "recorded."
        )
    return ""


def read_reply(session_id: uuid.UUID, prompt_index: int | None = None) -> TriedReply:
    """Return the reply to this prompt, or the latest reply if `prompt_index` is None, with the call
    and the layers from which a trial is made.

    For a reply in several steps, this is the call of the first step. Raises WrongState if the reply
    cannot be tried again.
    """
    chapter = get_chapter(session_id)
    attempt = latest_turn(chapter).chosen
    number = chapter.prompt_index if prompt_index is None else prompt_index
    behind = calls_behind_prompt(chapter, number)
    call, reason = behind.chosen, why_not_tried(chapter, number, behind)
    if reason or call is None:
        raise WrongState(reason)
    first = _first_step(behind, call)
    return TriedReply(chapter, attempt, number, text_of(attempt), first, _layers_of(first.artifact))


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
    return await store_and_start(
        partial(
            _open_trial,
            session_id,
            layer_number=layer_number,
            text=text,
            submission_key=submission_key,
            call_id=call_id,
            prompt_index=prompt_index,
        ),
        _prepare_trial,
        compose_step=_compose_trial,
    )


async def stop_trial(session_id: uuid.UUID, attempt_id: uuid.UUID) -> Attempt:
    """Stop a running trial. Its text so far is shown, but cannot be kept. Raises WrongState if the
    trial is over already."""
    attempt = await in_database(lambda: _find(get_chapter(session_id), attempt_id))
    if not attempt.is_running:
        raise WrongState("This trial is over already.")
    return await stop_running(attempt)


def adopt_trial(session_id: uuid.UUID, attempt_id: uuid.UUID) -> Attempt:
    """Choose the trial's reply. The reply that was chosen before stays as another attempt.

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
    base = _base_of(attempt)
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
        # Whether it has died is decided by the database's clock.
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
    check_allowed(session_id, agent_of(tried.attempt))
    changed_layer: dict[str, object] = {
        "call_id": str(tried.call.artifact.pk),
        "layer": layer_number,
        "layer_name": changed.name,
        "text_before": changed.text,
        "text": text,
    }
    # Prepare the call before the trial is stored, so that too long a request is refused.
    with contextlib.suppress(ModelNotReady):
        _prepare(tried.attempt, _with_change(tried.layers, layer_number, text))
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
    # Some browsers send a line break as CR and LF, so the texts are compared with line feeds only.
    sent = (layer_number, with_line_feeds(text))
    if sent != (change["layer"], change["text"]) or call_id not in ("", change.get("call_id")):
        raise KeyReused(
            "This trial was sent already, with another text. "
            "Nothing was changed; send yours again under an id of its own."
        )
    return OpenedAttempt(trial, must_run=False)


def _prepare_trial(attempt: Attempt) -> PreparedCall:
    change = changed_layer_of(attempt)
    base = _base_of(attempt)
    if base is None:
        raise WrongState("The call that this trial was made from is gone.")
    layers = _layers_of(base)
    changed = _with_change(layers, change["layer"], change["text"])
    return _prepare(attempt, changed, attempt_id=attempt.pk)


def _compose_trial(trial: Attempt) -> list[Layer]:
    """Return the layers of the next request of an agent with tools, with one text replaced."""
    base, change = _base_of(trial), changed_layer_of(trial)
    if base is None:
        raise WrongState("The call that this trial was made from is gone.")
    sent = _layers_of(base)[: change["layer"]]
    # The layer is found by its name and its place among the layers of this name, because an agent
    # may have several layers of one name.
    at = sum(one.sent.name == sent[-1].sent.name for one in sent) - 1
    layers = compose_reply(trial)
    same = [place for place, one in enumerate(layers) if one.name == sent[-1].sent.name]
    if at >= len(same):
        raise WrongState("The part that was changed is no longer in this prompt.")
    text = change["text"]
    layers[same[at] : same[at] + 1] = [sent[-1].changed_to(text)] if text else []
    return layers


def _prepare(
    attempt: Attempt, layers: list[Layer], *, attempt_id: uuid.UUID | None = None
) -> PreparedCall:
    """Prepare the call of a trial. If `attempt_id` is None, the trial is not stored yet, and
    `attempt` is the attempt from which it is made."""
    return prepare_call(
        agent_of(attempt),
        attempt.session_id,
        lambda: layers,
        stop=cues_of(attempt),
        attempt_id=attempt_id,
    )


def _with_change(layers: Sequence[TriedLayer], number: int, text: str) -> list[Layer]:
    """Return the layers with the text of one layer replaced. If the new text is empty, this layer
    is left out."""
    return [
        one.changed_to(text) if one.number == number else one.layer
        for one in layers
        if text or one.number != number
    ]


def _first_step(behind: CallsBehind, call: CallRecord) -> CallRecord:
    """Return the call of the first step of the same run. Return `call` if the first step has no
    record."""
    until = behind.calls[: behind.calls.index(call) + 1]
    # A step may have further calls, by which tools asked other agents.
    own = [
        one
        for one in until
        if one.artifact.attempt_id == call.artifact.attempt_id
        and one.artifact.agent == call.artifact.agent
    ]
    return next((one for one in reversed(own) if one.artifact.step <= 1), call)


def _layers_of(artifact: LLMArtifact) -> list[TriedLayer]:
    """Return the layers of the call that a trial can change.

    A layer that was dropped from the request cannot be changed, because it was not sent. The layer
    that describes the tools cannot be changed either, because it tells the model in which form to
    call them.
    """
    sent = [layer for layer in read_layers(artifact) if layer.parts and layer.name != TOOLS]
    return [TriedLayer(number, layer) for number, layer in enumerate(sent, start=1)]


def changed_layer_of(trial: Attempt) -> dict[str, Any]:
    """Return the change that the trial makes: the number and the name of the layer, its text before
    and after, and the id of the call from which the trial was made."""
    changed: dict[str, Any] = trial.changed_layer or {}
    return changed


def _base_of(trial: Attempt) -> LLMArtifact | None:
    """Return the call from which the trial was made, or None for an imported trial."""
    call_id = changed_layer_of(trial).get("call_id")
    return calls_of(trial.session).filter(pk=call_id).first() if call_id else None


def _find(chapter: Session, attempt_id: uuid.UUID) -> Attempt:
    trials = chapter.attempts.filter(kind=Attempt.Kind.TRIAL, pk=attempt_id)
    trial = trials.select_related("turn", "source", "session").first()
    if trial is None:
        raise UnknownTurn("There is no such trial in this chapter.")
    return trial
