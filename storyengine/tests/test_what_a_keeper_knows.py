"""Tests of a mode with tools: a text that only two of three characters know is in no request of the
third."""

import pytest

from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import says, sent_text
from agents.flows.replies.layers_to_try import read_reply
from agents.flows.replies.tests.trying import try_again
from agents.flows.replies.warmup import _compose_start
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.registry import compose_for, find_agent
from agents.prompting.layers import TIERS
from agents.prompting.sandwich import Subject
from agents.prompting.tools import ToolForm
from memory.canon.corrections import write_correction
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from storyengine.api.tests.calling import address, call
from storyengine.tests.playing_the_lighthouse import lighthouse as lighthouse
from storyengine.tests.playing_the_lighthouse import played, reroll

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("lighthouse")]

# Words that only keepers 1 and 2 know. They are in the user's prompt, in the log of signals and in
# a ruling.
PROMPT, LOG, RULED = "zqprompt", "zqlog", "zqruling"
PLANTED = {PROMPT, LOG, RULED}
# A word in an attempt that is not chosen. No character is told this word.
UNCHOSEN = "zqother"


@pytest.fixture
def chapter(lighthouse: None, provider: ScriptedProvider, form: ToolForm) -> Session:
    chapter = make_active_chapter(mode="lighthouse", selected_agent_slots=(1, 2, 3))
    provider.enqueue(says(form, f"I climb.\n\n*signal* Mind the {LOG}."))
    played(chapter, 1, f"You find the {PROMPT}.", witnesses=[1, 2])
    write_correction(chapter.pk, canon=f"so is {RULED}", readers=[1, 2])
    return Session.objects.get(pk=chapter.pk)


def planted_in(text: str) -> set[str]:
    return {word for word in {*PLANTED, UNCHOSEN} if word in text}


@pytest.mark.parametrize("slot", [2, 3])
class TestAWordForTwoOfThree:
    def known_to(self, slot: int) -> set[str]:
        return PLANTED if slot == 2 else set()

    def test_prompts_in_every_tier(self, chapter: Session, slot: int) -> None:
        keeper = find_agent("lighthouse.keeper")
        assert keeper is not None
        for tier in TIERS:
            layers = compose_for(keeper, Subject(chapter, slot, budget_tokens=1_000_000), tier)
            told = " ".join(piece.text for layer in layers for piece in layer.pieces)
            assert planted_in(told) == self.known_to(slot)

    def test_a_dry_run_and_a_warm_up(self, chapter: Session, slot: int) -> None:
        body = {"agent_slot": slot, "user_text": "Go on."}
        layers = call("POST", address(chapter, "dry-run"), body).json()["layers"]
        shown = " ".join(layer["text"] for layer in layers)
        start = _compose_start(chapter.pk, slot)
        warmed = " ".join(piece.text for layer in start for piece in layer.pieces)
        assert planted_in(shown) == planted_in(warmed) == self.known_to(slot)

    def test_prompts_and_trials_in_all_their_steps(
        self, chapter: Session, provider: ScriptedProvider, form: ToolForm, slot: int
    ) -> None:
        provider.enqueue(says(form, "I wait."), says(form, "I row."))
        played(chapter, 1, f"You hear of the {UNCHOSEN}.", witnesses=[1, 2])
        reroll(chapter, agent_slot=slot, user_text="What do you know?", witnesses=[1, 2, 3])
        assert planted_in(sent_text(provider.history[-1])) == self.known_to(slot)
        layers = read_reply(chapter.pk).layers
        for layer in layers:
            others = "".join(one.text for one in layers if one is not layer)
            before = len(provider.history)
            lights = says(form, "I light it.", ("light", {"lamp": f"lamp {layer.number}"}))
            provider.enqueue(lights, says(form, "It burns."))
            trial = try_again(chapter, "Something else.", number=layer.number)
            assert trial.status == Attempt.Status.COMMITTED
            told = [planted_in(sent_text(request)) for request in provider.history[before:]]
            assert told == [planted_in(others)] * 2
