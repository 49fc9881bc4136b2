"""What building the narrative is expected to take: composed as a build does, and sent nowhere."""

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings

from agents.calling.model_access import model_facts, model_name
from agents.calling.spending import spending_of
from agents.capabilities.prices import price_of
from agents.models import Job
from agents.narrating import SCENE_BEFORE, TRANSCRIPT, Material, fit_scene, plan_build, read_inputs
from agents.prompting.budget import TOKENS_PER_MESSAGE, read_weight_per_token
from agents.prompting.declarations import NARRATOR
from agents.prompting.layer_sources import transcript_weights
from agents.scenes import TOKENS_PER_WORD, Scene
from sessions.exceptions import WrongState
from sessions.models import Session
from sessions.states import State

# Stands in the estimate for the scene before, the end of which a scene is told.
_SCENE_BEFORE = "words " * 150


@dataclass(frozen=True)
class BuildEstimate:
    """Tokens of all calls, one a scene; a scene that falls short of its length needs more.

    `reasoning_tokens` is how much hidden reasoning may come on top at most. `dollars` are None
    where the model's price is not known. `warning` says which cap the build would pass, if any.
    """

    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    dollars: Decimal | None
    reasoning_dollars: Decimal | None
    warning: str

    @property
    def about_input(self) -> int:
        return _rounded(self.input_tokens)

    @property
    def about_output(self) -> int:
        return _rounded(self.output_tokens)


def estimate_build(chapter: Session) -> BuildEstimate:
    """Of the calls that a build would make now; finished scenes of a failed one are left out.

    Raises WrongState unless the chapter is ended, PromptTooLong where no build is possible, and
    ModelNotReady while the embedded model does not tell how much it can take.
    """
    if chapter.state != State.ENDED:
        raise WrongState("What a build will take can be said once the chapter is ended.")
    # Which model is embedded is known once its facts are.
    facts = model_facts(NARRATOR.agent_id)
    model = model_name(NARRATOR.agent_id)
    read, scenes = _weigh_build(chapter, model)
    written = round(sum(scene.target_words for scene in scenes) * TOKENS_PER_WORD)
    hidden = NARRATOR.reasoning_tokens * len(scenes) if facts.reasons else 0
    price = price_of(model)
    dollars = price.of({"input": read, "output": written}) if price else None
    return BuildEstimate(
        model=model,
        calls=len(scenes),
        input_tokens=read,
        output_tokens=written,
        reasoning_tokens=hidden,
        dollars=dollars,
        reasoning_dollars=price.of({"output": hidden}) if price else None,
        warning=_warning(chapter, read + written, dollars),
    )


def _weigh_build(chapter: Session, model: str) -> tuple[int, list[Scene]]:
    """Tokens of the prompts of the scenes that are still to be written, and those scenes.

    Prompts differ by their transcript alone, and the first by telling of no scene before, so that
    one is composed for all: that of the longest scene.
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
        return 0, []
    weight_per_token = read_weight_per_token(model, NARRATOR.agent_id)
    sizes = [sum(weights[scene.first - 1 : scene.last]) / weight_per_token for scene in left]
    longest = max(sizes)
    number = len(job.finished_scenes) + sizes.index(longest) + 1
    finished = [_SCENE_BEFORE] * (len(scenes) - 1)
    prompt = fit_scene(job, Material(chapter, scenes), number, finished)
    tokens = {record.name: record.tokens for record in prompt.records}
    played = min(longest, tokens[TRANSCRIPT])
    beside = sum(tokens.values()) + TOKENS_PER_MESSAGE * len(tokens) - played
    total = sum(beside + min(size, played) for size in sizes)
    if not job.finished_scenes and SCENE_BEFORE in tokens:
        total -= tokens[SCENE_BEFORE] + TOKENS_PER_MESSAGE
    return round(total), left


def _warning(chapter: Session, tokens: int, dollars: Decimal | None) -> str:
    spent = spending_of(chapter.llm_artifacts.all())
    budget, most_tokens = settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS
    if dollars is not None and budget and spent.dollars + dollars > budget:
        return (
            f"That is more than this chapter may still cost: ${spent.dollars:.2f} of the "
            f"${budget:.2f} in STORYENGINE_CHAPTER_BUDGET are spent."
        )
    if dollars is None and most_tokens and spent.unpriced_tokens + tokens > most_tokens:
        return (
            f"That is more than this chapter may still use: {spent.unpriced_tokens:,} of the "
            f"{most_tokens:,} tokens in STORYENGINE_CHAPTER_TOKENS are spent."
        )
    return ""


def _rounded(tokens: int) -> int:
    """To two figures: more would promise what an estimate cannot hold. 18,437 -> 18,000"""
    return round(tokens, 2 - len(str(tokens)))
