"""Tests of a reply in steps: the engine runs the tool calls of a step, and sends their results in
the next request."""

import logging

import pytest

from agents.calling.records.stored_prompts import read_messages
from agents.calling.tests.exploring import GO, World, explorer, says, sent_text, sentences
from agents.calling.tests.exploring import form as form
from agents.calling.tests.exploring import native as native
from agents.calling.tests.exploring import world as world
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import AdmittedCall, LLMArtifact
from agents.prompting.tools import (
    ProposedChange,
    Tool,
    ToolArguments,
    ToolContext,
    ToolForm,
    ToolResult,
)
from sessions.tests.factories import add_attempt
from testing.refusals import TOOL_FAILED

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("native")]


class TestSteps:
    def test_what_is_called_is_run_and_the_reply_goes_on(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(
            says(form, "I climb.", ("go", {"to": "the tower"})),
            says(form, "It is dark up here."),
        )
        reply = world.write(explorer())
        assert reply.text == "I climb.\n\nIt is dark up here." == "".join(world.shown)
        assert [(step.number, step.text) for step in world.steps] == [
            (1, "I climb."),
            (2, "\n\nIt is dark up here."),
        ]
        change = ProposedChange("moved", {"to": "the tower"}, step=1)
        assert [step.changes for step in world.steps] == [(change,), ()]
        assert sentences(world.steps) == ["You are at the tower now."]

    def test_the_next_prompt_tells_what_came_of_it_and_shows_the_new_world(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(
            says(form, "I climb.", ("go", {"to": "the tower"}), ("look", {})),
            says(form, "It is dark up here."),
        )
        world.write(explorer())
        first, second = provider.history
        assert "You stand at the quay." in sent_text(first)
        told = sent_text(second)
        assert "You stand at the tower." in told
        assert "You are at the tower now." in told
        assert "You see the lamp." in told
        roles = [message.role for message in second.messages]
        if form == "native":
            assert roles == ["system", "user", "assistant", "tool", "tool"]
            calls = second.messages[2].tool_calls
            assert [call.name for call in calls] == ["go", "look"]
            ids = [message.tool_call_id for message in second.messages[3:]]
            assert ids == [call.call_id for call in calls]
            assert [tool.name for tool in second.tools] == ["go", "look"]
        else:
            assert roles == ["system", "user", "assistant", "user"]
            # The next request repeats the model's answer in the form in which the model wrote it,
            # so that the model keeps to this form.
            assert (
                second.messages[2].content
                == says(form, "I climb.", ("go", {"to": "the tower"}), ("look", {})).text
            )
            assert second.messages[3].content == (
                "## TOOL_RESULTS\n1. go: You are at the tower now.\n2. look: You see the lamp."
            )
            assert "- go: Goes to a place." in second.messages[0].content
            assert not second.tools

    def test_each_step_is_a_call_with_its_own_record(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        attempt = add_attempt(world.chapter)
        provider.enqueue(says(form, "I look.", ("look", {})), says(form, "A lamp."))
        world.write(explorer(), attempt_id=attempt.pk)
        first, second = LLMArtifact.objects.order_by("step")
        assert (first.step, second.step) == (1, 2)
        assert {first.attempt_id, second.attempt_id} == {attempt.pk}
        assert read_messages(first) == provider.history[0].messages
        assert read_messages(second) == provider.history[1].messages
        names = [one["function"]["name"] for one in first.tool_calls]
        assert names == (["look"] if form == "native" else [])
        assert "look" in first.raw_output_ref or form == "native"
        assert AdmittedCall.objects.count() == 2

    def test_several_calls_of_one_answer_know_what_those_before_have_changed(
        self, world: World, provider: ScriptedProvider
    ) -> None:
        known: list[int] = []

        def count(_arguments: ToolArguments, context: ToolContext) -> ToolResult:
            known.append(len(context.changes))
            return ToolResult("Counted.", (ProposedChange("counted", {}),))

        tool = Tool("count", "Counts.", ToolArguments, count, frozenset({"counted"}))
        again = says("native", "", ("count", {}), ("go", {"to": "the shore"}), ("count", {}))
        provider.enqueue(again, "Three.")
        world.write(explorer(tool, GO))
        assert known == [0, 2]

    def test_a_tool_and_its_arguments_may_have_capital_letters(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        class Moving(ToolArguments):
            narrativeTime: str  # noqa: N815  (the name that the model is told)
            accompaniedBy: list[str]  # noqa: N815

        def move(arguments: Moving, _context: ToolContext) -> ToolResult:
            return ToolResult(f"It is {arguments.narrativeTime}: {arguments.accompaniedBy}.")

        tool = Tool("moveToLocation", "Moves.", Moving, move)
        said = {"narrativeTime": "noon", "accompaniedBy": ["Ann"]}
        if form == "xml":
            inside = (
                "<narrativeTime>noon</narrativeTime><accompaniedBy><item>Ann</item></accompaniedBy>"
            )
            called = says(form, "I go.", ("moveToLocation", inside))
        else:
            called = says(form, "I go.", ("moveToLocation", said))
        provider.enqueue(called, says(form, "There."))
        assert world.write(explorer(tool)).text == "I go.\n\nThere."
        assert sentences(world.steps) == ["It is noon: ['Ann']."]

    def test_a_step_without_words_may_end_it_once_something_was_done(
        self, world: World, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(says("native", "", ("go", {"to": "the shore"})), "")
        assert world.write(explorer()).text == ""
        assert world.place == "the shore"

    def test_what_failed_is_raised_and_the_steps_before_were_handed_over(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        provider.enqueue(says(form, "I go.", ("go", {"to": "the shore"})), ProviderBusy("Busy."))
        with pytest.raises(ProviderBusy):
            world.write(explorer())
        assert (world.place, "".join(world.shown)) == ("the shore", "I go.")


class TestWhatCannotBeRun:
    """A sentence tells the model why its call was not run, and the reply continues."""

    def told(
        self, form: ToolForm, world: World, provider: ScriptedProvider, *calls: tuple[str, object]
    ) -> list[str]:
        provider.enqueue(says(form, "I try.", *calls), says(form, "I stay."))
        assert world.write(explorer()).text == "I try.\n\nI stay."
        assert world.place == "the quay"
        told = sentences(world.steps)
        for sentence in told:
            assert sentence in sent_text(provider.history[1])
        return told

    def test_a_name_that_is_no_tool(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        told = self.told(form, world, provider, ("delete_chapter", {"to": "the shore"}))
        assert told == ["There is no tool of this name. The tools are: go, look."]

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            ({}, "to is missing"),
            ({"to": "the shore", "as": "root"}, "as is not acceptable"),
            ({"to": {"a": 1}}, "to must be text"),
        ],
    )
    def test_arguments_that_do_not_fit_their_model(
        self,
        world: World,
        provider: ScriptedProvider,
        arguments: dict[str, object],
        problem: str,
    ) -> None:
        assert self.told("native", world, provider, ("go", arguments)) == [
            f"It was not run: {problem}."
        ]

    @pytest.mark.parametrize(
        "broken", ['{"to": "the sh', "[]", "7", '{"to": NaN}', '{"to":' * 3_000 + "1" + "}" * 3_000]
    )
    def test_arguments_that_are_no_object(
        self, world: World, provider: ScriptedProvider, broken: str
    ) -> None:
        [told] = self.told("native", world, provider, ("go", broken))
        assert told.startswith("It was not run: ")
        # The next request repeats the call with a JSON object as its arguments, although the model
        # wrote arguments that are not an object.
        [call] = provider.history[1].messages[2].tool_calls
        assert call.arguments.startswith("{")

    def test_text_that_no_database_takes(self, world: World, provider: ScriptedProvider) -> None:
        # A model's text is not refused: it gets replacement characters.
        [told] = self.told("native", world, provider, ("go", {"to": "\0"}))
        assert told == "There is no way to it from here."

    def test_a_tool_that_fails(
        self, world: World, provider: ScriptedProvider, caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail(_arguments: ToolArguments, context: ToolContext) -> ToolResult:
            raise ValueError(context.readable["seen"])

        provider.enqueue(says("native", "I try.", ("fail", {})), "I stay.")
        world.write(explorer(Tool("fail", "Fails.", ToolArguments, fail)))
        assert sentences(world.steps) == [TOOL_FAILED]
        [line] = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
        assert "the tool fail failed" in line
        assert world.seen not in line

    def test_the_same_call_again(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        """A repeated call is not run again until a change has been made."""
        provider.enqueue(
            says(form, "", ("look", {}), ("look", {})),
            says(form, "", ("look", {}), ("look", {"at": "the lamp"})),
            says(form, "", ("go", {"to": "the shore"}), ("look", {})),
            says(form, "", ("go", {"to": "the shore"})),
            says(form, "There."),
        )
        world.write(explorer())
        was_run = ["made this call already" not in one for one in sentences(world.steps)]
        assert was_run == [True, False, False, True, True, True, False]

    def test_a_model_that_only_repeats_calls_has_one_answer_left(
        self, form: ToolForm, world: World, provider: ScriptedProvider
    ) -> None:
        climbs = ("go", {"to": "the tower"})
        provider.enqueue(
            says(form, "", climbs), says(form, "", climbs), says(form, "It is dark.", climbs)
        )
        assert world.write(explorer()).text == "It is dark."
        last = provider.history[-1]
        assert len(provider.history) == 3
        assert "Your next answer is the last one" in sent_text(last)
        if form == "json":
            assert last.json_schema is not None
            assert list(last.json_schema["properties"]) == ["text"]

    def test_a_loop_without_end(
        self,
        form: ToolForm,
        world: World,
        provider: ScriptedProvider,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        for at in range(5):
            provider.enqueue(says(form, f"Step {at}.", ("look", {"at": f"place {at}"})))
        reply = world.write(explorer(most_steps=5))
        assert reply.text == "\n\n".join(f"Step {at}." for at in range(5))
        assert len(provider.history) == 5
        assert "Your next answer is the last one" in sent_text(provider.history[4])
        assert "Your next answer is the last one" not in sent_text(provider.history[3])
        assert sentences(world.steps)[-1].startswith("No further call is run")
        assert "agent explorer used up its steps" in caplog.messages
