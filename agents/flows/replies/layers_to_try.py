"""Reads the latest reply and the layers of its request. A trial changes one of these layers, and
its request is composed here."""

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from agents.calling.records.call_records import (
    CallRecord,
    CallsBehind,
    calls_behind_prompt,
    calls_of,
)
from agents.calling.records.stored_prompts import read_layers
from agents.flows.replies.composing import ReplyRequest
from agents.models import LLMArtifact
from agents.prompting.escaping import without_forgeries
from agents.prompting.forms.tool_forms import TOOLS
from agents.prompting.layers import Layer, Piece
from agents.prompting.sent_layers import SentLayer
from sessions.chapter.access import get_chapter
from sessions.exceptions import InvalidInput, WrongState
from sessions.models import Attempt, Session
from sessions.play.committing import text_of
from sessions.play.latest_turn import latest_turn, why_not_changeable

# A changed layer has at most this many characters. A layer that was longer when it was sent may be
# as long as it was then.
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


def why_not_tried(chapter: Session, prompt_index: int, behind: CallsBehind) -> str:
    """Return the reason why the reply to this prompt cannot be tried again, or "" if it can be
    tried again."""
    if reason := why_not_changeable(chapter, prompt_index):
        return f"It cannot be tried again with a changed prompt: {reason}"
    if behind.came_with_starter:
        return (
            "It cannot be tried again with a changed prompt: people wrote it, so no model wrote it."
        )
    if behind.chosen is None or not behind.chosen.is_chosen:
        return (
            "It cannot be tried again with a changed prompt: the call that it came from is not "
            "recorded."
        )
    return ""


def read_reply(session_id: uuid.UUID, prompt_index: int | None = None) -> TriedReply:
    """Return the reply to this prompt, or the latest reply if `prompt_index` is None, with the call
    and the layers that a trial is made from.

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


def _first_step(behind: CallsBehind, call: CallRecord) -> CallRecord:
    """Return the call of the first step of the same run. Return `call` if the first step has no
    record."""
    until = behind.calls[: behind.calls.index(call) + 1]
    # A step may have further calls, which tools made to ask other agents.
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
    that describes the tools cannot be changed either, because it tells the model how to call them.
    """
    sent = [layer for layer in read_layers(artifact) if layer.parts and layer.name != TOOLS]
    return [TriedLayer(number, layer) for number, layer in enumerate(sent, start=1)]


def changed_layer_of(trial: Attempt) -> dict[str, Any]:
    """Return the change that the trial makes: the number and the name of the layer, its text before
    and after, and the id of the call that the trial was made from."""
    changed: dict[str, Any] = trial.changed_layer or {}
    return changed


def base_of(trial: Attempt) -> LLMArtifact | None:
    """Return the call that the trial was made from, or None for an imported trial."""
    call_id = changed_layer_of(trial).get("call_id")
    return calls_of(trial.session).filter(pk=call_id).first() if call_id else None


def with_change(layers: Sequence[TriedLayer], number: int, text: str) -> list[Layer]:
    """Return the layers with the text of one layer replaced. If the new text is empty, this layer
    is left out."""
    return [
        one.changed_to(text) if one.number == number else one.layer
        for one in layers
        if text or one.number != number
    ]


class TrialRequest(ReplyRequest):
    """The request of a trial: the layers of the call that the trial is made from, with one text
    replaced."""

    def layers(self) -> list[Layer]:
        """Return the changed layers. For an agent with tools, which is asked again after each step,
        the layers are composed anew."""
        change, base = changed_layer_of(self.attempt), base_of(self.attempt)
        if base is None:
            raise WrongState("The call that this trial was made from is gone.")
        sent, text = _layers_of(base), change["text"]
        if not self.model.agent.tools:
            return with_change(sent, change["layer"], text)
        # The layer is found by its name and its place among the layers of this name, because an
        # agent may have several layers of one name.
        sent = sent[: change["layer"]]
        at = sum(one.sent.name == sent[-1].sent.name for one in sent) - 1
        layers = super().layers()
        same = [place for place, one in enumerate(layers) if one.name == sent[-1].sent.name]
        if at >= len(same):
            raise WrongState("The part that was changed is no longer in this prompt.")
        layers[same[at] : same[at] + 1] = [sent[-1].changed_to(text)] if text else []
        return layers
