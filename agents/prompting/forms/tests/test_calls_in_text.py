"""Tests of tool calls that a model writes into its text, in forms that nobody asked for."""

import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from agents.llm.providers.strict_schema import is_strict
from agents.prompting.forms.schemas import (
    InvalidReply,
    check_payload,
)
from agents.prompting.forms.tests.test_tool_answers import cut, read
from agents.prompting.forms.tool_answers import AnswerEnd, AnswerReader
from agents.prompting.forms.tool_arguments import arguments_meant, name_meant
from agents.prompting.forms.tool_forms import answer_schema, tools_layer
from agents.prompting.tools import Tool, ToolArguments, ToolContext, ToolResult


class Walking(ToolArguments):
    destination: str = Field(min_length=1, max_length=50, description="Where the player goes.")
    narrativeTime: str = Field(max_length=50)  # noqa: N815  (the name that the model is told)
    accompaniedBy: list[str] = Field(max_length=5)  # noqa: N815
    ticks: int = Field(1, ge=1, le=9)
    pace: Literal["slow", "fast"] = "slow"


class Waiting(ToolArguments):
    ticks: int = Field(ge=1, le=9)


def stay(_arguments: ToolArguments, _context: ToolContext) -> ToolResult:
    return ToolResult("Nothing happens.")


WALK = Tool("moveToLocation", "Goes somewhere.", Walking, stay)
WAIT = Tool("advanceTime", "Waits.", Waiting, stay)
TOOLS = (WALK, WAIT)
SAID = {"destination": "the quay", "narrativeTime": "Night"}
MEANT = {**SAID, "accompaniedBy": []}
CALL = {"name": "moveToLocation", "arguments": SAID}

_J, _ARGUMENTS = json.dumps(CALL), json.dumps(SAID)
_CODE = 'moveToLocation(destination="the quay", narrativeTime="Night")'
_PARAMETERS = (
    '<parameter name="destination">the quay</parameter>\n<parameter name="narrativeTime">Night'
    "</parameter>"
)
# The forms in which models that were trained on calls write one.
FORMS = {
    "bare": _J,
    "list": f"[{_J}]",
    "asked": json.dumps({"text": "", "calls": [CALL]}),
    "tool_calls": json.dumps({"tool_calls": [{"type": "function", "function": CALL}]}),
    "content": json.dumps({"role": "assistant", "content": None, "tool_calls": [CALL]}),
    "parameters": json.dumps({"name": "moveToLocation", "parameters": SAID}),
    "string": json.dumps({"name": "functions.move_to_location", "arguments": _ARGUMENTS}),
    "by name": json.dumps({"moveToLocation": SAID}),
    "flat": json.dumps({"tool": "moveToLocation", **SAID}),
    "fence": f"```json\n{_J}\n```",
    "fence without a language": f"```\n{_J}\n```",
    "trailing comma": _J[:-2] + ",},}",
    "python's words": str(CALL),
    "no last bracket": _J[:-1],
    "Hermes": f"<tool_call>\n{_J}\n</tool_call>",
    "Hermes without a bracket": f"<tool_call>\n{_J[:-1]}\n</tool_call>",
    "Mistral": f"[TOOL_CALLS] [{_J}]",
    "Mistral with a name": f"[TOOL_CALLS]moveToLocation[ARGS]{_ARGUMENTS}",
    "Llama": f"<|python_tag|>{_J}",
    "Llama in Python": f"<|python_tag|>{_CODE}",
    "function": f"<function=moveToLocation>{_ARGUMENTS}</function>",
    "Qwen's coder": "<tool_call>\n<function=moveToLocation>\n<parameter=destination>\nthe quay\n"
    "</parameter>\n<parameter=narrativeTime>\nNight\n</parameter>\n</function>\n</tool_call>",
    "invoke": f'<function_calls>\n<invoke name="moveToLocation">\n{_PARAMETERS}\n</invoke>\n'
    "</function_calls>",
    "element": '<call name="moveToLocation"><destination>the quay</destination><narrativeTime>'
    "Night</narrativeTime></call>",
    "Gemma": f"```tool_code\nprint({_CODE})\n```",
    "Gemma's variable": f"```tool_code\ngone = default_api.{_CODE}\n```",
    "Gemma's call": f"```tool_call\n{_J}\n```",
    "Python": f"[{_CODE}]",
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>moveToLocation\n"  # noqa: RUF001
    f"```json\n{_ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",  # noqa: RUF001
    "Kimi": "<|tool_calls_section_begin|><|tool_call_begin|>functions.moveToLocation:0"
    f"<|tool_call_argument_begin|>{_ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
    "GLM": "<tool_call>moveToLocation\n<arg_key>destination</arg_key>\n<arg_value>the quay"
    "</arg_value>\n<arg_key>narrativeTime</arg_key>\n<arg_value>Night</arg_value>\n</tool_call>",
}  # fmt: skip
FURTHER = {
    "label": f"Action: moveToLocation\nAction Input: {_ARGUMENTS}",
    "label before": f"Tool call: {_J}",
    "label and fence": f"Action: ```json\n[{_J}]\n```",
    "name before": f"moveToLocation {_ARGUMENTS}",
    "name and colon": f"moveToLocation:\n{_ARGUMENTS}",
    "functools": f"functools[{_J}]",
    "flowers": "\u273fFUNCTION\u273f: moveToLocation\n"
    f"\u273fARGS\u273f: {_ARGUMENTS}\n\u273fRESULT\u273f",
    "channel without marks": f"commentary to=functions.moveToLocation json{_ARGUMENTS}",
    "python_start": f"<|python_start|>[{_CODE}]<|python_end|>",
    "plugin": f"<|action_start|><|plugin|>{_J}<|action_end|>",
    "DSML": "<\uff5cDSML\uff5cfunction_calls>\n<\uff5cDSML\uff5cinvoke name=\"moveToLocation\">\n"
    '<\uff5cDSML\uff5cparameter name="destination" string="true">the quay'
    "</\uff5cDSML\uff5cparameter>\n"
    '<\uff5cDSML\uff5cparameter name="narrativeTime">Night</\uff5cDSML\uff5cparameter>\n'
    "</\uff5cDSML\uff5cinvoke>\n</\uff5cDSML\uff5cfunction_calls>",
    "escapes": "<start_function_call>call:moveToLocation{destination:<escape>the quay<escape>,"
    "narrativeTime:<escape>Night<escape>}<end_function_call>",
    "bars for quotes": '<|tool_call>call:moveToLocation{destination:<|"|>the quay<|"|>,'
    'narrativeTime:<|"|>Night<|"|>}<tool_call|>',
    "name in an element": "<tool_call><name>moveToLocation</name>"
    f"<arguments>{_ARGUMENTS}</arguments></tool_call>",
    "invoke without a name": "<function_calls><invoke><tool_name>moveToLocation</tool_name>"
    "<parameters><destination>the quay</destination><narrativeTime>Night</narrativeTime>"
    "</parameters></invoke></function_calls>",
    "attributes": '<moveToLocation destination="the quay" narrativeTime="Night"/>',
    "long cat": "<longcat_tool_call>moveToLocation\n"
    "<longcat_arg_key>destination</longcat_arg_key>\n<longcat_arg_value>the quay"
    "</longcat_arg_value>\n<longcat_arg_key>narrativeTime"
    "</longcat_arg_key>\n<longcat_arg_value>Night</longcat_arg_value>\n</longcat_tool_call>",
    "fenced element": f"```xml\n<tool_call>{_J}</tool_call>\n```",
    "a bracket too many": f"<tool_call>{_J}}}</tool_call>",
    "small letters": f"[tool_calls] [{_J}]",
}  # fmt: skip
# Forms that say by themselves that they are calls, whichever tools there are.
PLAIN = [
    name
    for name in FORMS
    if name not in ("by name", "flat", "Python", "content", "python's words", "no last bracket")
]
prose = st.text(st.sampled_from("abc xyz.,!?'\n-é"), max_size=40)
places = st.lists(st.integers(0, 9_999), max_size=12)


def meant(end: AnswerEnd) -> list[tuple[str, dict[str, Any]]]:
    tools = {tool.name: tool for tool in TOOLS}
    return [
        (name, arguments_meant(call.arguments, tools[name].arguments))
        for call in end.calls
        for name in [name_meant(call.name, tools)]
    ]


@pytest.mark.parametrize("name", [*FORMS, *FURTHER])
@given(prose, places)
def test_a_call_in_any_form_is_found_and_its_words_are_kept(
    name: str, before: str, at: list[int]
) -> None:
    after = "" if name == "no last bracket" else "\n\nThe sea lies still."
    answer = f"{before}\n\n{(FORMS | FURTHER)[name]}{after}"
    shown, end = read(AnswerReader(TOOLS), cut(answer, at))
    assert shown.split() == f"{before}{after}".split()
    assert meant(end) == [("moveToLocation", MEANT)]
    assert not end.problem


@given(st.lists(st.tuples(prose, st.sampled_from(PLAIN)), max_size=4), prose, places)
def test_several_calls_and_words_between_them_do_not_depend_on_the_pieces(
    parts: list[tuple[str, str]], last: str, at: list[int]
) -> None:
    # A form that ends with no mark of its own ends where a line of words begins.
    answer = "".join(f"{words}\n\n{FORMS[name]}\n\nAnd so. " for words, name in parts) + last
    whole, end = read(AnswerReader(TOOLS), [answer])
    assert whole.split() == ("".join(f"{words}\n\nAnd so. " for words, _ in parts) + last).split()
    assert meant(end) == [("moveToLocation", MEANT)] * len(parts)
    pieces, again = read(AnswerReader(TOOLS), cut(answer, at))
    assert (pieces, again.calls, again.problem) == (whole, end.calls, end.problem)


@pytest.mark.parametrize("name", [one for one in PLAIN if "fence" not in one])
def test_a_call_that_breaks_off_is_not_shown(name: str) -> None:
    form = FORMS[name]
    begin = form.index("move") + 3
    for until in range(begin, len(form)):
        shown, _ = read(AnswerReader(TOOLS), f"I nod.\n{form[:until]}")
        assert shown.strip() == "I nod.", form[:until]


@pytest.mark.parametrize(
    "text",
    [
        'She reads: {"name": "Tom", "age": 3} and laughs.',
        'He reads {"name": "Tom", "job": "baker" and stops.',
        '```json\n{"a": 1}\n```',
        "```\nA sign\n```\nmore",
        '{"Stop," he says, and {sic} [aside] <3 `x` went.',
        "The screen says <tool_call> and nothing follows, not even <b>this</b>.",
        "advanceTime is a word, and moveToLocation(s) too.",
        '[{"heron": 2}, {"gull": 1}]',
        "Action: I jump!",
        "Tool: a hammer.\nCall: nobody.\nFunction: none",
        "The tool is advanceTime: it waits.",
        "[I look around](slowly) and {so on}; then [x_y] more.",
    ],
)
def test_words_that_are_no_call_stay_as_they_are(text: str) -> None:
    for tools in (TOOLS, ()):
        for pieces in ([text], list(text)):
            shown, end = read(AnswerReader(tools), pieces)
            assert (shown, end.calls, end.problem) == (text, (), "")


@given(st.text(st.sampled_from('ab {}[]<>/"`|\\:,=_()\n'), max_size=60), places)
def test_any_text_is_the_same_in_any_pieces(text: str, at: list[int]) -> None:
    whole, end = read(AnswerReader(TOOLS), [text])
    pieces, again = read(AnswerReader(TOOLS), cut(text, at))
    assert (whole, end.calls, end.problem) == (pieces, again.calls, again.problem)


class TestArguments:
    @pytest.mark.parametrize(
        ("said", "expected"),
        [
            (_ARGUMENTS, MEANT),
            (json.dumps(_ARGUMENTS), MEANT),
            (f"```json\n{_ARGUMENTS}\n```", MEANT),
            ({"arguments": SAID}, MEANT),
            (
                {"destination": "x", "narrative_time": "y"},
                {"destination": "x", "narrativeTime": "y"},
            ),
            ({**SAID, "accompaniedBy": None}, {}),
            ({**SAID, "accompaniedBy": "Tom"}, {"accompaniedBy": ["Tom"]}),
            ({**SAID, "accompaniedBy": '["Tom", "Ann"]'}, {"accompaniedBy": ["Tom", "Ann"]}),
            ({**SAID, "accompaniedBy": ""}, {}),
            ({**SAID, "destination": 7}, {"destination": "7"}),
            ({**SAID, "ticks": "3"}, {"ticks": 3}),
            ({**SAID, "ticks": None}, {}),
            ({**SAID, "pace": "Fast"}, {"pace": "fast"}),
            ({**SAID, "unknown": None}, {}),
        ],
    )
    def test_the_one_possible_reading_is_taken(
        self, said: object, expected: dict[str, Any]
    ) -> None:
        payload = arguments_meant(said, Walking)
        assert payload == {**MEANT, **expected}
        check_payload(payload, Walking)

    @pytest.mark.parametrize(
        ("said", "problem"),
        [
            ({**SAID, "destination": None}, "destination must be text"),
            ({**SAID, "destination": ""}, "destination must not be empty"),
            ({**SAID, "ticks": 99}, "ticks must be at most 9"),
            ({**SAID, "pace": "lazily"}, "pace must be 'slow' or 'fast'"),
            ({**SAID, "as": "root"}, "as is not acceptable"),
            ({"destination": "x"}, "narrativeTime is missing"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_with_what_is_allowed(
        self, said: object, problem: str
    ) -> None:
        with pytest.raises(InvalidReply, match=problem):
            check_payload(arguments_meant(said, Walking), Walking)


class TestWhatModelsAreTold:
    def test_descriptions_and_bounds_reach_the_model_in_every_form(self) -> None:
        part = WALK.schema.parameters["properties"]
        assert part["destination"]["description"] == "Where the player goes."
        assert (part["ticks"]["minimum"], part["ticks"]["maximum"]) == (1, 9)
        assert part["destination"]["maxLength"] == 50
        for form in ("json", "xml"):
            told = tools_layer(form, TOOLS).text
            assert "Where the player goes." in told
            assert "50" in told
        schema = answer_schema(TOOLS)
        assert is_strict(schema)
        assert "Where the player goes." in json.dumps(schema)
