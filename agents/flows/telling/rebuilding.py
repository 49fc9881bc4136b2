"""Rebuilds a scene: agent 9 writes a single scene of a draft again. The draft with the new scene is
stored as another draft.

A rebuild is a narration job like a build, with the same state of the chapter. Its inputs also name
the draft and the scene.
"""

import uuid
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from django.db import transaction

from agents.calling.calls import check_allowed
from agents.calling.estimating import CallsEstimate, estimate_calls
from agents.calling.model_access import model_of
from agents.flows.telling.narrating import (
    give_up,
    read_inputs,
    store_telling,
    write_chapter,
    write_scene,
)
from agents.flows.telling.scene_requests import Material, fit_scene
from agents.flows.telling.scenes import Scene
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import check_stage
from agents.prompting.agent import in_chapter
from agents.prompting.budget import TOKENS_PER_MESSAGE
from agents.prompting.declarations import NARRATOR
from agents.running.database import in_database
from agents.running.job_kinds import JobKind, Watch, declare_job_kind
from agents.running.jobs import queue_job
from memory.models import NarrativeDraft
from memory.prose.drafts import Telling, check_scene, find_draft, last_prompt_of, tell, telling_of
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.states import move
from sessions.exceptions import KeyReused, WrongState
from sessions.models import Session, State
from sessions.play.attempts import KEY_REUSED, clean_key
from sessions.play.latest_turn import latest_turn

# The job of a rebuild has an input with this name. The job of a build has none.
_REBUILT = "rebuilt_scene"


@dataclass(frozen=True)
class RebuiltScene:
    """A scene of a draft that is written again. The first scene has the number 1."""

    draft_id: str
    number: int


def rebuilt_scene(job: Job) -> RebuiltScene | None:
    """Return the scene that the job writes again, or None if the job builds a whole draft."""
    named = job.inputs.get(_REBUILT)
    return RebuiltScene(**named) if named else None


def why_not_rebuilt(chapter: Session, draft: NarrativeDraft) -> str:
    """Return the reason why no scene of the draft can be written again now, or "". The draft must
    come from `drafts_of`."""
    if not draft.scenes:
        return "The scenes of this draft are not recorded. Build the narrative again instead."
    if chapter.state == State.NARRATING:
        return "A draft is being written already. Wait for it or cancel it."
    if chapter.state != State.ENDED:
        return "A scene is written again from an ended session. End the chapter first."
    is_of_now = last_prompt_of(draft) == chapter.prompt_index
    if not (is_of_now and getattr(draft, "is_current", True)):
        return (
            "The chapter was played on since this draft was written, so a new scene would not fit "
            "to its others. Build the narrative again instead."
        )
    return ""


@transaction.atomic
def request_rebuild(
    session_id: uuid.UUID, draft_id: uuid.UUID, number: int, *, submission_key: str = ""
) -> Job:
    """Queue a rebuild of the scene with this number.

    A second request with the same key returns the same job. If that job has failed or was
    cancelled, it is queued again. Raises UnknownChapter, WrongState, KeyReused, and the errors of
    `check_allowed`.
    """
    lock_chapter(session_id)
    chapter = get_chapter(session_id)
    check_stage(chapter, Stage.NARRATION)
    draft, scene = _find_scene(chapter, draft_id, number)
    key = f"rebuild-{sha256(clean_key(submission_key).encode()).hexdigest()}"
    made = chapter.jobs.filter(kind=Job.Kind.NARRATE, key=key).first()
    if made is not None:
        if rebuilt_scene(made) != scene:
            raise KeyReused(KEY_REUSED)
        if made.status not in (Job.Status.FAILED, Job.Status.CANCELLED):
            return made
    if reason := why_not_rebuilt(chapter, draft):
        raise WrongState(reason)
    check_allowed(session_id, in_chapter(NARRATOR, chapter))
    move(
        Session.objects.filter(pk=session_id, state=State.ENDED),
        State.NARRATING,
        refusal="A scene is written again from an ended session.",
    )
    attempt = latest_turn(chapter).chosen
    # A single scene is short, and a person waits for it. So its job does not count as long writing.
    job = queue_job(session_id, Job.Kind.NARRATE, key, queue=Job.Queue.PERSON, attempt=attempt)
    job.inputs, job.scenes = _inputs(chapter, draft, scene), _scenes(draft)
    job.save(update_fields=["inputs", "scenes"])
    return job


def estimate_rebuild(chapter: Session, draft_id: uuid.UUID, number: int) -> CallsEstimate:
    """Estimate the call that writes the scene again, if the scene does not come out too short.

    Raises UnknownChapter, WrongState, PromptTooLong and ModelNotReady.
    """
    draft, scene = _find_scene(chapter, draft_id, number)
    if reason := why_not_rebuilt(chapter, draft):
        raise WrongState(reason)
    job = Job(session=chapter, kind=Job.Kind.NARRATE, inputs=_inputs(chapter, draft, scene))
    material = _material(chapter, _scenes(draft))
    texts = telling_of(draft).texts
    prompt = fit_scene(job, material, number, texts[: number - 1], after=_after(texts, number))
    read = sum(layer.tokens for layer in prompt.layers) + TOKENS_PER_MESSAGE * len(prompt.layers)
    told = material.scenes[number - 1]
    written = round(told.target_words * material.tokens_per_word(told))
    model = model_of(material.narrator).when_ready()
    return estimate_calls(chapter, model, calls=1, read=read, written=written)


async def write_narrative(job: Job, watch: Watch) -> None:
    """Write a whole draft or a single scene, as the job's inputs say."""
    if rebuilt_scene(job) is None:
        await write_chapter(job, watch)
    else:
        await _write_scene_again(job, watch)


async def _write_scene_again(job: Job, watch: Watch) -> None:
    scene, material, telling = await in_database(_read, job)
    texts = telling.texts
    watch.plan = {
        "target_words": material.scenes[scene.number - 1].target_words,
        "scenes": len(texts),
        "scene": scene.number,
    }
    watch.show("")
    before, after = texts[: scene.number - 1], _after(texts, scene.number)
    text = await write_scene(job, material, scene.number, before, watch, after=after)
    scenes = list(telling.scenes)
    scenes[scene.number - 1] = replace(scenes[scene.number - 1], job_id=str(job.pk))
    again = tell(scenes, [*before, text, *texts[scene.number :]])
    await in_database(store_telling, job, watch, again, uuid.UUID(scene.draft_id))


def _read(job: Job) -> tuple[RebuiltScene, Material, Telling]:
    scene = rebuilt_scene(job)
    assert scene is not None, "The job names the scene that it writes again."
    chapter = get_chapter(job.session_id)
    _, draft = find_draft(chapter, uuid.UUID(scene.draft_id))
    return scene, _material(chapter, job.scenes), telling_of(draft)


def _find_scene(
    chapter: Session, draft_id: uuid.UUID, number: int
) -> tuple[NarrativeDraft, RebuiltScene]:
    _, draft = find_draft(chapter, draft_id)
    check_scene(draft, number)
    return draft, RebuiltScene(str(draft.pk), number)


def _inputs(chapter: Session, draft: NarrativeDraft, scene: RebuiltScene) -> dict[str, Any]:
    """Return the inputs of a build as the chapter is now, with the draft's length and the scene."""
    return read_inputs(chapter) | {"target_words": draft.target_words, _REBUILT: asdict(scene)}


def _scenes(draft: NarrativeDraft) -> list[dict[str, int]]:
    return [
        asdict(Scene(one.first, one.last, one.target_words)) for one in telling_of(draft).scenes
    ]


def _material(chapter: Session, scenes: list[dict[str, int]]) -> Material:
    return Material(chapter, [Scene(**scene) for scene in scenes])


def _after(texts: list[str], number: int) -> str:
    """Return the text of the scene after the scene with this number, or "" if it is the last."""
    return texts[number] if number < len(texts) else ""


declare_job_kind(
    Job.Kind.NARRATE, JobKind(run=write_narrative, give_up=give_up, queue=Job.Queue.LONG)
)
