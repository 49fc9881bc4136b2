"""Builds drafts. Agent 9 tells the whole chapter as prose, in one call or scene by scene.

Finished scenes are stored with the job. If a build fails, the next build continues after these
scenes. agents.flows.telling.rebuilding writes a single scene of a draft again.
"""

import asyncio
import logging
import uuid
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from django.db import transaction

from agents.calling.calls import Reply, Validate, call_model, check_allowed
from agents.calling.model_access import model_of
from agents.calling.objects import NotInForm
from agents.exceptions import BudgetSpent, PromptTooLong, RateLimited
from agents.flows.remembering.memory_calls import check_calls_accepted
from agents.flows.telling.scene_requests import (
    DONE_WORD,
    Material,
    continuation,
    fit_scenes,
    scene_layers,
)
from agents.flows.telling.scenes import (
    TOKENS_PER_WORD,
    NarratorLimits,
    Scene,
    plan_scenes,
    transcript_weights,
)
from agents.models import Job
from agents.modes.declaration import Stage
from agents.modes.registry import check_stage
from agents.prompting.agent import Agent, in_chapter
from agents.prompting.budget import input_budget, output_limit
from agents.prompting.cleaning.declining import is_refusal
from agents.prompting.cleaning.plain_prose import as_prose, end_at_sentence, repeats, why_no_prose
from agents.prompting.declarations import NARRATOR
from agents.prompting.forms.schemas import InvalidReply
from agents.prompting.layers import Layer
from agents.running.database import in_database
from agents.running.job_kinds import Watch
from agents.running.jobs import cancel_jobs, fail, finish, owned, queue_job
from memory.blocks.blocks import counting_blocks, counting_deltas
from memory.prose.drafts import Telling, ToldScene, tell, write_draft
from sessions.chapter.access import get_chapter, lock_chapter
from sessions.chapter.states import (
    move,
    try_move,
)
from sessions.language.words import count_words
from sessions.models import Session, State
from sessions.play.latest_turn import latest_turn

logger = logging.getLogger(__name__)

# The message for the user if the narrator's answer cannot be used.
NO_PROSE = (
    "The narrator did not answer with prose, so nothing of its answer was taken. Another try often "
    "helps, and a larger model makes this mistake less often."
)
# A scene that is too short is continued by at most this many calls.
MAX_CONTINUATIONS = 5
# The number of pauses, and the seconds of each, while the cap on calls in a minute is reached. All
# pauses together are longer than a minute.
RATE_TRIES, RATE_PAUSE_SECONDS = 5, 15.0
# The narrator says with one word that nothing is left to tell. It may put these signs around the
# word.
_AROUND_DONE = " \n\t.*_\"'"
# The fewest words that the narrator is asked to add to a scene.
LEAST_CONTINUED = 80
# A scene that has at least this fraction of its target length is not continued.
ENOUGH = 0.92
# A scene that was cut is not continued if it has at least this fraction of its target length,
# because a small model may never end a scene by itself.
MORE_THAN_ENOUGH = 1.15


@transaction.atomic
def request_build(session_id: uuid.UUID) -> Job:
    """Queue a build of an ended chapter. If a build with the same inputs has failed, continue this
    build.

    Raises the errors of `check_allowed`; CallsNotAccepted for a chapter in play that cannot end
    before the user accepts the calls for its memory; and WrongState for any other chapter that is
    not ended.
    """
    chapter = get_chapter(session_id)
    check_stage(chapter, Stage.NARRATION)
    check_allowed(session_id, in_chapter(NARRATOR, chapter))
    check_calls_accepted(chapter, is_ending=True)
    move(
        Session.objects.filter(pk=session_id, state=State.ENDED),
        State.NARRATING,
        refusal="A chapter is written from an ended session. End the chapter first; "
        "if it is being written already, wait for it or cancel it.",
    )
    inputs = read_inputs(chapter)
    failed = chapter.jobs.filter(
        kind=Job.Kind.NARRATE, status=Job.Status.FAILED, inputs=inputs
    ).last()
    key = failed.key if failed is not None else uuid.uuid4().hex
    attempt = latest_turn(chapter).chosen
    return queue_job(session_id, Job.Kind.NARRATE, key, inputs=inputs, attempt=attempt)


@transaction.atomic
def cancel_build(session_id: uuid.UUID) -> Session:
    """Cancel the build. Earlier drafts are kept. Raises WrongState if there is no build."""
    lock_chapter(session_id)
    get_chapter(session_id)
    move(
        Session.objects.filter(pk=session_id, state=State.NARRATING),
        State.ENDED,
        refusal="No chapter is being written.",
    )
    cancel_jobs(session_id, Job.Kind.NARRATE)
    return get_chapter(session_id)


async def write_chapter(job: Job, watch: Watch) -> None:
    """Write the scenes that are not finished yet, then store the draft.

    Raises PromptTooLong before the first call if the request of any scene would not fit.
    """
    material = await in_database(_read_material, job)
    await in_database(fit_scenes, job, material)
    finished: list[str] = list(job.finished_scenes)
    watch.plan = {"target_words": job.inputs["target_words"], "scenes": len(material.scenes)}
    for number in range(len(finished) + 1, len(material.scenes) + 1):
        watch.show("".join(f"{scene}\n\n" for scene in finished))
        watch.plan["scene"] = number
        finished.append(await write_scene(job, material, number, finished, watch))
        if not await in_database(_keep_scenes, job, finished):
            return
    scenes = [ToldScene(**asdict(scene), start=0, job_id=str(job.pk)) for scene in material.scenes]
    await in_database(store_telling, job, watch, tell(scenes, finished))


def give_up(job: Job, error: Exception) -> None:
    """Fail the build with its error. Earlier drafts and the finished scenes are kept, so that the
    next build can continue after these scenes."""
    finished = Job.objects.filter(pk=job.pk).values_list("finished_scenes", flat=True).first()
    kept = len(finished or [])
    hint = f" {_scenes(kept)}: build again to go on from there." if kept else ""
    with transaction.atomic():
        lock_chapter(job.session_id)
        if fail(job, f"{error}{hint} Earlier drafts are unchanged.", cause=error):
            try_move(Session.objects.filter(pk=job.session_id, state=State.NARRATING), State.ENDED)


def _scenes(kept: int) -> str:
    return "One finished scene is kept" if kept == 1 else f"{kept} finished scenes are kept"


async def write_scene(
    job: Job,
    material: Material,
    number: int,
    finished: list[str],
    watch: Watch,
    *,
    after: str = "",
) -> str:
    """Write a scene and return its text. After the first call, further calls continue the scene
    while it is too short and the narrator has more to tell.

    `after` is the text of the scene after, if it is written already.
    """
    scene = material.scenes[number - 1]
    base = watch.text
    compose = partial(scene_layers, job, material, number, finished, after=after)
    layers = await in_database(compose)
    agent = material.narrator
    caller = _Caller(job, agent, watch, await in_database(material.tokens_per_word, scene))
    told, was_cut = await caller.begin(layers, scene.target_words)
    text = _clean(agent, told) or told
    for _ in range(MAX_CONTINUATIONS):
        words = count_words(text)
        if words >= scene.target_words * (MORE_THAN_ENOUGH if was_cut else ENOUGH):
            break
        text = text.rstrip() if not was_cut else end_at_sentence(text)
        watch.show(f"{base}{text}\n\n")
        missing = max(scene.target_words - words, LEAST_CONTINUED)
        continued = [*layers, *continuation(text, missing)]
        try:
            more, was_cut = await caller.call_when_allowed(continued, missing)
        except (BudgetSpent, PromptTooLong, RateLimited) as refusal:
            # A scene that is too short is kept, because its calls were already paid for.
            logger.warning("scene %s stays short: %s", number, type(refusal).__name__)
            break
        more, is_done = _without_done(_clean(agent, more))
        if _is_done(more) or why_no_prose(more) or repeats(more, text) or _is_refusal(agent, more):
            break
        text = f"{text}\n\n{more.strip()}"
        if is_done:
            break
    return end_at_sentence(text) if was_cut else text.strip()


def _clean(agent: Agent, text: str) -> str:
    """Return the text without the marks that a small model writes although nobody asked for them.
    Any other model writes headings and emphasis because the user wants them, so its text is not
    changed."""
    return as_prose(text) if model_of(agent).is_small else text.strip("\n")


def _is_refusal(agent: Agent, text: str) -> bool:
    return is_refusal(text, of_small_model=model_of(agent).is_small)


def _is_done(text: str) -> bool:
    """Return whether the narrator says that nothing is left to tell."""
    return text.strip(_AROUND_DONE).upper() == DONE_WORD


def _without_done(text: str) -> tuple[str, bool]:
    """Remove the last line if the narrator says in it that nothing is left to tell. Return the
    text, and whether there was such a line. If a person of the story says "Done." in the last line,
    the line is kept."""
    told, _, last = text.rstrip().rpartition("\n")
    return (told, True) if last.strip(" \t.*_") == DONE_WORD else (text, False)


@dataclass(frozen=True)
class _Caller:
    """Makes the calls of a scene. A word of the chapter costs about `tokens_per_word` tokens."""

    job: Job
    agent: Agent
    watch: Watch
    tokens_per_word: float

    async def begin(self, layers: Sequence[Layer], target_words: int) -> tuple[str, bool]:
        """Make the first call of a scene. Raises NotInForm if the narrator wrote no prose."""

        def check(reply: Reply) -> None:
            if _is_done(reply.text):
                raise InvalidReply(f"the answer is only the word {DONE_WORD}")
            if problem := why_no_prose(reply.text):
                raise InvalidReply(problem)
            if _is_refusal(self.agent, reply.text):
                raise InvalidReply("the model declines as a program does")

        try:
            return await self._call(layers, target_words, validate=check)
        except InvalidReply:
            raise NotInForm(NO_PROSE) from None

    async def call_when_allowed(
        self, layers: Sequence[Layer], target_words: int
    ) -> tuple[str, bool]:
        """Make the call. While the cap on calls in a minute is reached, wait and try again.

        The scene is not given up, because its text so far was already paid for.
        """
        for _ in range(RATE_TRIES):
            try:
                return await self._call(layers, target_words)
            except RateLimited:
                await asyncio.sleep(RATE_PAUSE_SECONDS)
        return await self._call(layers, target_words)

    async def _call(
        self, layers: Sequence[Layer], target_words: int, *, validate: Validate | None = None
    ) -> tuple[str, bool]:
        room = round(target_words * self.tokens_per_word * 1.3) + 100

        def is_enough(text: str) -> bool:
            return count_words(text) >= target_words * MORE_THAN_ENOUGH

        agent = self.agent
        reply = await call_model(
            agent,
            self.job.session_id,
            lambda: layers,
            on_text=self.watch.add,
            on_restart=partial(self.watch.show, self.watch.text),
            # A small model does not end its text by itself. So the call is ended when its text is
            # long enough.
            is_enough=is_enough if model_of(agent).is_small else None,
            validate=validate,
            # A reasoning model keeps its own limit, because hidden reasoning counts as output.
            output_tokens=None if model_of(agent).facts.reasons else room,
            job_id=self.job.pk,
        )
        return reply.text, reply.was_cut


def read_inputs(chapter: Session) -> dict[str, Any]:
    """Return the inputs of a build. A build with the same inputs can continue a failed build."""
    blocks = counting_blocks(chapter).values_list("pk", flat=True)
    return {
        "definition_text": chapter.narrative_agent_definition_text,
        "target_words": chapter.target_words,
        "max_prompt_index": chapter.prompt_index,
        "block_ids": [str(block_id) for block_id in blocks],
    }


def _read_material(job: Job) -> Material:
    chapter = get_chapter(job.session_id)
    if not job.scenes:
        # The scenes are planned once and stored with the job, so that finished scenes still fit if
        # the model changes.
        weights = transcript_weights(chapter, job.inputs["max_prompt_index"])
        scenes = [
            asdict(scene) for scene in plan_build(chapter, weights, job.inputs["target_words"])
        ]
        owned(job).update(scenes=scenes)
        job.scenes = scenes
    return Material(chapter, [Scene(**scene) for scene in job.scenes])


def plan_build(chapter: Session, weights: Sequence[float], target_words: int) -> list[Scene]:
    """Divide the chapter into scenes that the narrator's model can write. `weights` has the weight
    of each prompt."""
    agent = in_chapter(NARRATOR, chapter)
    model = model_of(agent).when_ready()
    facts, weight_per_token = model.facts, model.weight_per_token
    limit = output_limit(agent, facts)
    # If the model's limit is lower than the agent's limit, hidden reasoning and prose are both
    # reduced in proportion.
    reasoning = agent.reasoning_tokens if facts.reasons else 0
    prose_tokens = limit * agent.text_tokens / (agent.text_tokens + reasoning)
    deltas = counting_deltas(chapter)
    return plan_scenes(
        # A stretch counts once, even if it has deltas for several audiences.
        list(dict.fromkeys(deltas.values_list("from_prompt_index", "to_prompt_index"))),
        [weight / weight_per_token for weight in weights],
        target_words,
        NarratorLimits(
            # The transcript may take 0.4 of the window, and memory another 0.4. The rest is for the
            # other layers of the request.
            transcript_tokens=input_budget(facts, limit) * 0.4,
            words_per_call=max(200, int(prose_tokens / TOKENS_PER_WORD)),
        ),
    )


def _keep_scenes(job: Job, finished: list[str]) -> bool:
    return bool(owned(job).update(finished_scenes=finished))


@transaction.atomic
def store_telling(
    job: Job, watch: Watch, telling: Telling, origin_id: uuid.UUID | None = None
) -> None:
    """Store the draft that the job has written, and end its work. If the job wrote a single scene
    of an earlier draft again, `origin_id` names this draft."""
    watch.show(telling.text)
    lock_chapter(job.session_id)
    if not finish(job, progress=watch.progress):
        return
    assert job.attempt is not None, "A build names the attempt at its last turn."
    write_draft(
        job.session_id,
        job_id=job.pk,
        attempt=job.attempt,
        definition_text=job.inputs["definition_text"],
        target_words=job.inputs["target_words"],
        max_prompt_index=job.inputs["max_prompt_index"],
        block_ids=job.inputs["block_ids"],
        telling=telling,
        origin_id=origin_id,
    )
    try_move(Session.objects.filter(pk=job.session_id, state=State.NARRATING), State.ENDED)
