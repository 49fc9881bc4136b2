"""The latest reply tried again with one layer of its prompt changed, beside play.

A trial is a Job: its reply waits on the job until the GM adopts it, which is a re-roll. Until then
no prompt, no memory and no chapter knows of it.
"""

import contextlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from django.db import transaction

from agents.calling.call_records import (
    CallRecord,
    CallsBehind,
    adoption_key,
    calls_behind_prompt,
    calls_of,
    record_of,
)
from agents.calling.calls import PreparedCall, check_allowed, let_through, make_call, prepare_call
from agents.exceptions import ModelNotReady
from agents.flows.characters import agent_of, others_cues
from agents.flows.replies import adopt_reply, finished_text
from agents.models import Job
from agents.prompting.escaping import without_forgeries
from agents.prompting.layers import Layer, text_layer
from agents.prompting.prompt_parts import SEPARATOR, PromptPart, split_prompt
from agents.running.database import in_database, in_database_patiently
from agents.running.job_kinds import JobKind, declare_job_kind
from agents.running.jobs import cancel_jobs, fail, finish, queue_job
from agents.running.watch import Watch
from sessions.access import get_chapter, lock_chapter
from sessions.exceptions import InvalidInput, KeyReused, UnknownChapter, WrongState
from sessions.limits import SUBMISSION_KEY_CHAR_LIMIT
from sessions.models import Event, Session, Turn
from sessions.text import clean_line, clean_text

# A layer that was sent with more may stay as long as it was.
LAYER_CHAR_LIMIT = 60_000


@dataclass(frozen=True)
class SentLayer:
    """A layer of a prompt that was sent, as a trial may change it; `number` counts from 1."""

    number: int
    part: PromptPart
    # The same text again: without its heading, and without the blank line before the next layer.
    layer: Layer

    @property
    def name(self) -> str:
        return self.part.name or f"(layer {self.number})"

    @property
    def text(self) -> str:
        return self.layer.pieces[0].text

    @property
    def limit(self) -> int:
        return max(LAYER_CHAR_LIMIT, len(self.text))


@dataclass(frozen=True)
class TriedReply:
    """The latest reply, the call that it came from, and the layers of that call's prompt."""

    chapter: Session
    prompt_index: int
    reply: Event
    call: CallRecord
    layers: list[SentLayer]

    def find_layer(self, number: int) -> SentLayer:
        if not 1 <= number <= len(self.layers):
            raise InvalidInput("There is no such layer in this prompt. Nothing was sent.")
        return self.layers[number - 1]


@dataclass(frozen=True)
class Trial:
    """A trial beside the reply that it was made from; `call` is None until a model was called."""

    job: Job
    chapter: Session
    reply: Event
    base: CallRecord | None
    call: CallRecord | None
    is_adopted: bool
    # Why no re-roll could replace the reply now; "" if one could.
    why_not: str

    @property
    def prompt_index(self) -> int:
        return self.job.from_prompt_index

    @property
    def can_adopt(self) -> bool:
        return self.job.status == Job.Status.DONE and not (self.is_adopted or self.why_not)

    @property
    def layer_number(self) -> int:
        return int(self.job.inputs["layer"])

    @property
    def layer_name(self) -> str:
        return str(self.job.inputs["layer_name"])

    @property
    def text_before(self) -> str:
        return str(self.job.inputs["text_before"])

    @property
    def text(self) -> str:
        """The layer's text in this trial; empty where the layer was left out."""
        return str(self.job.inputs["text"])

    @property
    def new_reply(self) -> str:
        """Whole once the trial is done; before, and where it ended early, as far as it came."""
        return self.job.result_text or self.job.partial_text


def why_not_tried(chapter: Session, prompt_index: int, behind: CallsBehind) -> str:
    """Why the reply to this prompt cannot be tried again; "" if it can."""
    if reason := _why_not_rerolled(chapter, prompt_index):
        return f"It cannot be tried again with a changed prompt: {reason}"
    if behind.chosen is None or not behind.chosen.is_chosen:
        return (
            "It cannot be tried again with a changed prompt: the call that it came from is not "
            "recorded."
        )
    return ""


def read_reply(session_id: uuid.UUID, prompt_index: int | None = None) -> TriedReply:
    """What a trial starts from: the reply to this prompt, or the latest.

    Raises WrongState when it cannot be tried again.
    """
    chapter = get_chapter(session_id)
    number = chapter.prompt_index if prompt_index is None else prompt_index
    if chapter.prompt_index == 0:
        raise WrongState("There is no reply to try again yet. Send a prompt first.")
    behind = calls_behind_prompt(chapter, number)
    call, reason = behind.chosen, why_not_tried(chapter, number, behind)
    if reason or call is None:
        raise WrongState(reason)
    reply = chapter.events.filter(prompt_index=number, role=Event.Role.AGENT).latest("created_at")
    return TriedReply(chapter, number, reply, call, _layers_of(call))


def request_trial(
    session_id: uuid.UUID,
    *,
    layer_number: int,
    text: str,
    submission_key: str,
    call_id: str = "",
    prompt_index: int | None = None,
) -> Job:
    """Have the latest reply written once more with the text of one layer replaced.

    An empty text leaves the layer out. With a `call_id` it is refused once the reply came from
    another call. Sent again under the same key it is the same trial, and runs again if it had
    failed or was stopped. Raises a ChapterError when refused, before anything is sent.
    """
    key = clean_line(submission_key, limit=SUBMISSION_KEY_CHAR_LIMIT, label="The submission's id")
    chapter = get_chapter(session_id)
    earlier = chapter.jobs.filter(kind=Job.Kind.TRIAL, key=key).first() if key else None
    if earlier is not None and not _may_run_again(earlier):
        return _answer_again(earlier, call_id, layer_number, text)
    tried = read_reply(session_id, prompt_index)
    if call_id not in ("", str(tried.call.artifact.pk)):
        raise WrongState(
            "The reply was written again meanwhile. Nothing was sent; look at the new one first."
        )
    changed = tried.find_layer(layer_number)
    text = clean_text(text, limit=changed.limit, label=f"The layer {changed.name}")
    if text == changed.text:
        raise InvalidInput(
            "Nothing is changed in this layer, so nothing was sent. "
            "Change it, or have the reply written again on Tab 2."
        )
    check_allowed(session_id)
    # Refuses what could not be sent. A model that is not ready yet is the worker's to wait for.
    with contextlib.suppress(ModelNotReady):
        _prepare(tried, layer_number, text)
    inputs = {
        "call_id": str(tried.call.artifact.pk),
        "reply_id": str(tried.reply.pk),
        "layer": layer_number,
        "layer_name": changed.name,
        "text_before": changed.text,
        "text": text,
    }
    return _queue(tried, key or str(uuid.uuid4()), inputs)


def stop_trial(session_id: uuid.UUID, job_id: uuid.UUID) -> Job:
    """End a trial; its text so far is shown, and is never a reply."""
    with transaction.atomic():
        lock_chapter(session_id)
        job = _find(get_chapter(session_id), job_id)
        if not cancel_jobs(session_id, Job.Kind.TRIAL, pk=job.pk):
            raise WrongState("This trial is over already.")
    job.refresh_from_db()
    return job


def adopt_trial(session_id: uuid.UUID, job_id: uuid.UUID) -> Turn:
    """Make the trial's reply the reply, as a re-roll would; the earlier one stays an event.

    Asked again it is the same turn. Raises WrongState when there is no reply to use, when memory
    covers the prompt, and when play has gone on.
    """
    job = _find(get_chapter(session_id), job_id)
    if job.status != Job.Status.DONE:
        raise WrongState("This trial has not come to a whole reply, so there is none to use.")
    return adopt_reply(
        session_id,
        prompt_index=job.from_prompt_index,
        text=job.result_text,
        submission_key=adoption_key(job.pk),
    )


def read_trial(session_id: uuid.UUID, job_id: uuid.UUID) -> Trial:
    """Raises UnknownChapter for what is no trial of this chapter."""
    chapter = get_chapter(session_id)
    job = _find(chapter, job_id)
    calls = calls_of(chapter)
    base = calls.filter(pk=job.inputs["call_id"]).first()
    own = calls.filter(job=job).order_by("created_at").last()
    adopted = chapter.turns.filter(submission_key=adoption_key(job.pk)).exists()
    return Trial(
        job=job,
        chapter=chapter,
        reply=chapter.events.get(pk=job.inputs["reply_id"]),
        base=record_of(chapter, base) if base else None,
        call=record_of(chapter, own) if own else None,
        is_adopted=adopted,
        why_not=_why_not_rerolled(chapter, job.from_prompt_index),
    )


async def write_trial(job: Job, watch: Watch) -> None:
    """Make the trial's one call, and keep its reply with the job."""
    call = await in_database(_prepare_job, job)
    reply = await make_call(call, on_text=watch.add)
    text = finished_text(call.agent.agent_id, reply)
    await in_database_patiently(finish, job, result_text=text)


def give_up(job: Job, error: Exception) -> None:
    """Show the error; nothing else has changed."""
    fail(job, str(error), cause=error)


def _prepare_job(job: Job) -> PreparedCall:
    chapter = get_chapter(job.session_id)
    base = calls_of(chapter).filter(pk=job.inputs["call_id"]).first()
    if base is None:
        raise WrongState("The call that this trial was made from is gone.")
    call = record_of(chapter, base)
    reply = chapter.events.get(pk=job.inputs["reply_id"])
    tried = TriedReply(chapter, job.from_prompt_index, reply, call, _layers_of(call))
    layer_number, text = job.inputs["layer"], job.inputs["text"]
    return let_through(job.session_id, lambda: _prepare(tried, layer_number, text, job_id=job.pk))


def _prepare(
    tried: TriedReply, layer_number: int, text: str, *, job_id: uuid.UUID | None = None
) -> PreparedCall:
    turn = Turn(session=tried.chapter, agent_slot=tried.call.artifact.agent_id)
    return prepare_call(
        agent_of(turn),
        tried.chapter.pk,
        lambda: _with_change(tried.layers, layer_number, text),
        stop=others_cues(turn),
        job_id=job_id,
    )


def _with_change(layers: Sequence[SentLayer], number: int, text: str) -> list[Layer]:
    """The same layers with one text replaced; without that layer where the text is empty."""
    changed = []
    for one in layers:
        if one.number != number:
            changed.append(one.layer)
        elif text:
            changed.append(
                _layer(
                    one.part,
                    text,
                    has_heading=one.layer.has_heading,
                    # Where none were sent, those of the new text are the GM's and not the engine's.
                    has_elements=one.text != without_forgeries(one.text),
                )
            )
    return changed


def _layers_of(call: CallRecord) -> list[SentLayer]:
    """Never trimmed: joined again, they are the messages that were sent, letter for letter."""
    split = split_prompt(call.artifact.raw_input_ref, call.artifact.layers)
    # A layer that was dropped whole was not sent.
    parts = [part for part in split if part.text or part.kept or part.shortened]
    layers = []
    for at, part in enumerate(parts):
        # Layers of one role are one message, with a blank line between them.
        is_followed = at + 1 < len(parts) and parts[at + 1].role == part.role
        text = part.text.removesuffix(SEPARATOR) if is_followed else part.text
        heading = f"## {part.name}\n"
        has_heading = bool(part.name) and text.startswith(heading)
        layer = _layer(
            part,
            text.removeprefix(heading) if has_heading else text,
            has_heading=has_heading,
            # What others wrote was escaped when it was sent.
            has_elements=True,
        )
        layers.append(SentLayer(at + 1, part, layer))
    return layers


def _layer(part: PromptPart, text: str, *, has_heading: bool, has_elements: bool) -> Layer:
    role = cast(Literal["system", "user", "assistant"], part.role)
    return text_layer(
        part.name, text, role=role, has_heading=has_heading, has_elements=has_elements
    )


@transaction.atomic
def _queue(tried: TriedReply, key: str, inputs: dict[str, object]) -> Job:
    lock_chapter(tried.chapter.pk)
    number = tried.prompt_index
    if reason := _why_not_rerolled(get_chapter(tried.chapter.pk), number):
        raise WrongState(f"Nothing was sent: {reason}")
    earlier = Job.objects.filter(session=tried.chapter, kind=Job.Kind.TRIAL, key=key).first()
    if earlier is not None:
        if earlier.inputs != inputs:
            raise _reused()
        if not _may_run_again(earlier):
            return earlier
    return queue_job(
        tried.chapter.pk,
        Job.Kind.TRIAL,
        key,
        from_prompt_index=number,
        to_prompt_index=number,
        inputs=inputs,
    )


def _answer_again(job: Job, call_id: str, layer_number: int, text: str) -> Job:
    sent = (job.inputs["layer"], job.inputs["text"])
    # A line break counts as one, however it was sent.
    again = (layer_number, text.replace("\r\n", "\n").replace("\r", "\n"))
    if sent != again or call_id not in ("", job.inputs["call_id"]):
        raise _reused()
    return job


def _reused() -> KeyReused:
    return KeyReused(
        "This trial was sent already, with another text. "
        "Nothing was changed; send yours again under an id of its own."
    )


def _may_run_again(job: Job) -> bool:
    return job.status in (Job.Status.FAILED, Job.Status.CANCELLED)


def _why_not_rerolled(chapter: Session, prompt_index: int) -> str:
    """Why a re-roll could not replace the reply to this prompt."""
    if prompt_index <= chapter.last_summarized_prompt_index:
        return "memory covers this prompt already."
    if prompt_index != chapter.prompt_index:
        return "play has gone on, and only the latest reply can be replaced."
    if chapter.is_ending:
        return "the chapter is ending."
    if not chapter.is_playable:
        return f"the chapter is not in play ({chapter.get_state_display()})."
    return ""


def _find(chapter: Session, job_id: uuid.UUID) -> Job:
    job = chapter.jobs.filter(kind=Job.Kind.TRIAL, pk=job_id).first()
    if job is None:
        raise UnknownChapter("There is no such trial in this chapter.")
    return job


declare_job_kind(Job.Kind.TRIAL, JobKind(run=write_trial, give_up=give_up))
