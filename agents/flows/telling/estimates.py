"""Estimates the calls of a build. Their requests are composed but not sent."""

from agents.calling.estimating import CallsEstimate, estimate_calls
from agents.calling.model_access import AgentModel, model_of
from agents.flows.telling.narrating import plan_build, read_inputs
from agents.flows.telling.scene_requests import SCENE_BEFORE, TRANSCRIPT, Material, fit_scene
from agents.flows.telling.scenes import Scene, transcript_weights
from agents.models import Job
from agents.prompting.agent import in_chapter
from agents.prompting.budget import TOKENS_PER_MESSAGE
from agents.prompting.declarations import NARRATOR
from sessions.exceptions import WrongState
from sessions.models import Session, State

# A text of the usual length of a scene's end. The request of each scene after the first has the end
# of the scene before. At the time of the estimate that scene is not written, so its end is replaced
# by this text.
_SCENE_BEFORE = "words " * 150


def estimate_build(chapter: Session) -> CallsEstimate:
    """Estimate the calls of a build, with one call for each scene that is not finished yet.

    The estimate leaves out the further calls for scenes that are too short. Raises WrongState
    unless the chapter is ended, PromptTooLong if no build is possible, and ModelNotReady while the
    window of the embedded model is not known.
    """
    if chapter.state != State.ENDED:
        raise WrongState("What a build will take can be said once the chapter is ended.")
    model = model_of(in_chapter(NARRATOR, chapter)).when_ready()
    read, written, calls = _weigh_build(chapter, model)
    return estimate_calls(chapter, model, calls=calls, read=read, written=written)


def _weigh_build(chapter: Session, model: AgentModel) -> tuple[int, int, int]:
    """Return three numbers for the unfinished scenes: the tokens of their requests, the tokens of
    their texts, and the number of the scenes.

    Only the request of the longest scene is composed, because the other requests differ only by
    their transcripts. But the request of the first scene has no end of an earlier scene.
    """
    inputs = read_inputs(chapter)
    begun = chapter.jobs.filter(
        kind=Job.Kind.NARRATE, status=Job.Status.FAILED, inputs=inputs
    ).last()
    job = begun or Job(session=chapter, kind=Job.Kind.NARRATE, inputs=inputs)
    weights = transcript_weights(chapter, chapter.prompt_index)
    scenes = [Scene(**scene) for scene in job.scenes] or plan_build(
        chapter, weights, chapter.target_words
    )
    left = scenes[len(job.finished_scenes) :]
    if not left:
        return 0, 0, 0
    weight_per_token = model.weight_per_token
    sizes = [sum(weights[scene.first - 1 : scene.last]) / weight_per_token for scene in left]
    longest = max(sizes)
    number = len(job.finished_scenes) + sizes.index(longest) + 1
    finished = [_SCENE_BEFORE] * (len(scenes) - 1)
    material = Material(chapter, scenes)
    prompt = fit_scene(job, material, number, finished)
    tokens = {layer.name: layer.tokens for layer in prompt.layers}
    played = min(longest, tokens[TRANSCRIPT])
    beside = sum(tokens.values()) + TOKENS_PER_MESSAGE * len(tokens) - played
    total = sum(beside + min(size, played) for size in sizes)
    if not job.finished_scenes and SCENE_BEFORE in tokens:
        total -= tokens[SCENE_BEFORE] + TOKENS_PER_MESSAGE
    words = sum(scene.target_words for scene in left)
    written = words * material.tokens_per_word(scenes[number - 1])
    return round(total), round(written), len(left)
