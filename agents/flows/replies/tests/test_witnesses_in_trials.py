"""A trial tells a character what that character knows, whichever layer is changed."""

import pytest
from pytest_django import Settings

from agents.calling.model_access import model_of
from agents.flows.replies.layers_to_try import read_reply
from agents.flows.replies.tests.test_witnesses import MODELS, RunJobs, marks_of, sent
from agents.flows.replies.tests.test_witnesses import chapter as chapter
from agents.flows.replies.tests.trying import try_again
from agents.flows.tests.playing import play, reroll
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.declared import CHARACTERS
from memory.canon.corrections import write_correction
from sessions.models import Attempt, Session

pytestmark = pytest.mark.django_db

# Four marked words. Characters 1 and 2 are told the first by memory, the second by the recent
# context and the third by a ruling. Nobody is told the fourth, which is in an unchosen attempt at
# the latest turn.
REMEMBERED, RECENT, RULED, UNCHOSEN = "zq1memory", "zq2recent", "zq3ruling", "zq4other"


@pytest.mark.parametrize("slot", [2, 3])
@pytest.mark.parametrize(("llm", "model", "tier"), MODELS)
def test_a_word_for_two_of_three_reaches_no_trial_of_the_third(
    chapter: Session,
    provider: ScriptedProvider,
    run_jobs: RunJobs,
    settings: Settings,
    llm: str,
    model: str,
    tier: str,
    slot: int,
) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = llm, model, {}
    assert model_of(CHARACTERS[slot]).tier == tier
    for number in range(1, 21):
        words = {2: f"She shows it: {REMEMBERED}.", 20: f"He whispers: {RECENT}."}.get(number)
        play(chapter, words or f"Beat {number}.", slot=1, witnesses=[2] if words else None)
        run_jobs()
    chapter.refresh_from_db()
    assert chapter.last_summarized_prompt_index == 14
    write_correction(chapter.pk, canon=f"so is {RULED}", readers=[1, 2])
    play(chapter, f"She says it: {UNCHOSEN}.", slot=1, witnesses=[2])
    reroll(chapter, actor=slot, words="What do you know?", witnesses=[1, 2, 3])
    layers = read_reply(chapter.pk).layers
    assert len(layers) > 3
    for layer in layers:
        before = len(provider.history)
        for text in ("Something else.", ""):
            assert try_again(chapter, text, number=layer.number).status == Attempt.Status.COMMITTED
        told = [marks_of(sent(request)) for request in provider.history[before:]]
        known = {REMEMBERED, RECENT, RULED} - marks_of(layer.text)
        assert told == [known if slot == 2 else set()] * 2
