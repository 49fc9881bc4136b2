"""Tests of how answers with tool calls are read, in each form, while they arrive."""

import json
from collections.abc import Mapping, Sequence
from typing import Literal
from xml.sax.saxutils import escape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.facts.model_facts import facts_of
from agents.llm.providers.answers.tool_calls import MOST_ARGUMENTS, MOST_CALLS
from agents.prompting.forms.tool_answers import (
    BROKEN_CALL,
    NO_OBJECT,
    AnswerEnd,
    AnswerReader,
)
from agents.prompting.forms.tool_forms import answer_schema, tool_form_for, tools_layer
from agents.prompting.tools import Tool, ToolArguments, ToolContext, ToolForm, ToolResult
from sessions.tests.weekly import few


class Going(ToolArguments):
    to: str
    steps: int = 1
    with_whom: list[str] = []
    how: Literal["slowly", "fast"] = "slowly"


class Looking(ToolArguments):
    pass


def stay(_arguments: ToolArguments, _context: ToolContext) -> ToolResult:
    return ToolResult("Nothing happens.")


GO = Tool("go", "Goes somewhere.", Going, stay)
LOOK = Tool("look", "Looks around.", Looking, stay)
TOOLS = (GO, LOOK)
ARGUMENTS = {"to": "the <quay> & on", "steps": 3, "with_whom": ["Tom"], "how": "fast"}

texts = st.text(st.sampled_from('ab <>/&"\\\n{}[]:,callsnm=é😀'), max_size=30)


def read(reader: AnswerReader, pieces: Sequence[str]) -> tuple[str, AnswerEnd]:
    """Read an answer from its pieces. Return all text that was shown, with the AnswerEnd."""
    shown = "".join(reader.take(piece) for piece in pieces)
    end = reader.end()
    return shown + end.text, end


def cut(text: str, places: Sequence[int]) -> list[str]:
    at = sorted({place % (len(text) + 1) for place in places})
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]


def calls_of(end: AnswerEnd) -> list[tuple[str, object]]:
    return [(each.name, json.loads(each.arguments)) for each in end.calls]


def as_json(text: str, *calls: tuple[str, object], ascii_only: bool = True) -> str:
    entries = [{"name": name, "arguments": arguments} for name, arguments in calls]
    return json.dumps({"text": text, "calls": entries}, ensure_ascii=ascii_only)


def as_xml(name: str, **arguments: object) -> str:
    inside = ""
    for key, value in arguments.items():
        items = value if isinstance(value, list) else [value]
        wrapped = [f"<item>{escape(str(item))}</item>" for item in items]
        inside += f"<{key}>{''.join(wrapped) if isinstance(value, list) else escape(str(value))}"
        inside += f"</{key}>"
    return f'<call name="{name}">{inside}</call>'


class TestJson:
    # A mark of a template would be taken off.
    @given(
        texts.filter(lambda text: "s" not in text or "<" not in text),
        st.lists(st.integers(0, 999), max_size=9),
        st.booleans(),
    )
    def test_however_it_is_cut_its_text_and_calls_are_the_same(
        self, text: str, places: list[int], ascii_only: bool
    ) -> None:
        answer = as_json(text, ("go", ARGUMENTS), ("look", {}), ascii_only=ascii_only)
        shown, end = read(AnswerReader(TOOLS, "json"), cut(answer, places))
        assert shown == (text if text.strip() else "")
        assert calls_of(end) == [("go", ARGUMENTS), ("look", {})]
        assert not end.problem

    def test_the_text_is_shown_while_it_is_written(self) -> None:
        reader = AnswerReader(TOOLS, "json")
        shown = [reader.take(piece) for piece in ('{"te', 'xt": "I st', "ep \\", "ud8", "3d")]
        assert shown == ["", "I st", "ep ", "", ""]
        assert reader.take("\\ude00 in") == "\N{GRINNING FACE} in"
        assert reader.take('side.", "calls": [') == "side."

    def test_of_a_long_text_each_reading_shows_a_sixty_fourth_more_at_most(self) -> None:
        reader, waiting = AnswerReader(TOOLS, "json"), 0
        for at, piece in enumerate(as_json("x" * 2_000)):
            waiting = 0 if reader.take(piece) else waiting + 1
            assert waiting < 15 + at / 64
            if at > 2_000:
                break

    @pytest.mark.parametrize(
        "answer",
        ["```json\n{}\n```", "\n\n{}", "[{}]", "```\n[{}]\n```\n"],
        ids=["in a fence", "behind empty lines", "in a list", "in a list in a fence"],
    )
    def test_what_stands_around_it_is_not_shown(self, answer: str) -> None:
        whole = answer.replace("{}", as_json("I go.", ("go", {"to": "the quay"})))
        shown, end = read(AnswerReader(TOOLS, "json"), whole)
        assert shown.strip() == "I go."
        assert calls_of(end) == [("go", {"to": "the quay"})]

    @given(st.integers(1, 10_000))
    def test_one_that_breaks_off_calls_nothing(self, place: int) -> None:
        answer = as_json("I go.", ("go", ARGUMENTS))
        # If only brackets are missing behind the arguments, nothing else can follow.
        until = len(answer) - len("}]}")
        shown, end = read(AnswerReader(TOOLS, "json"), [answer[: 1 + place % (until - 1)]])
        assert "I go.".startswith(shown)
        assert (end.calls, end.problem) == ((), NO_OBJECT)

    @pytest.mark.parametrize(
        "text", ["<think>Hm.</think>I go.", "I go.<|im_end|>", "I go.\n\n<analysis>Hm.</analysis>"]
    )
    def test_thoughts_and_marks_in_its_text_are_not_shown(self, text: str) -> None:
        answer = as_json(text, ("look", {}))
        for pieces in ([answer], list(answer)):
            shown, end = read(AnswerReader(TOOLS, "json"), pieces)
            assert (shown.strip(), calls_of(end), end.problem) == ("I go.", [("look", {})], "")


class TestXml:
    @given(
        texts.filter(lambda text: "<c" not in text and not text.endswith("<")),
        st.lists(st.integers(0, 999), max_size=9),
    )
    def test_however_it_is_cut_its_text_and_calls_are_the_same(
        self, text: str, places: list[int]
    ) -> None:
        answer = f'{text}{as_xml("go", **ARGUMENTS)} and {as_xml("look")}<call name="look"/>.'
        shown, end = read(AnswerReader(TOOLS, "xml"), cut(answer, places))
        # The space between calls that nothing else stands between is left out.
        assert shown.split() == f"{text} and .".split()
        assert calls_of(end) == [("go", ARGUMENTS), ("look", {}), ("look", {})]
        assert not end.problem

    def test_text_is_shown_at_once_and_a_call_never(self) -> None:
        reader = AnswerReader(TOOLS, "xml")
        assert reader.take("I go <") == "I go "
        assert reader.take("b>now</b> <ca") == "<b>now</b> "
        assert reader.take("ll name='go'><to>qu") == ""
        assert reader.take("ay</to></ca") == ""
        assert reader.take("ll> and") == " and"

    @given(texts, st.lists(st.integers(0, 999), max_size=9))
    def test_nothing_of_a_text_without_calls_is_lost(self, text: str, places: list[int]) -> None:
        shown, end = read(AnswerReader(TOOLS, "xml"), cut(text, places))
        assert shown == text
        assert not end.calls

    @pytest.mark.parametrize("text", ["<call", "<call me", "<call>x</call>", "<calling name='go'>"])
    def test_what_names_no_tool_is_text(self, text: str) -> None:
        assert read(AnswerReader(TOOLS, "xml"), text)[0] == text

    @pytest.mark.parametrize("place", [5, 12, 17, 19, 25, 39])
    def test_a_call_that_breaks_off_is_none_and_is_not_shown(self, place: int) -> None:
        answer = f"I go. {as_xml('go', to='the quay')}"
        shown, end = read(AnswerReader(TOOLS, "xml"), answer[: 6 + place])
        assert (shown, end.calls, end.problem) in (
            ("I go. ", (), BROKEN_CALL),
            (answer[: 6 + place], (), ""),
        )
        assert (place < 12) == (not end.problem)


@pytest.mark.parametrize("form", ["json", "xml"])
class TestBounds:
    def answer(self, form: ToolForm, *calls: tuple[str, Mapping[str, object]]) -> str:
        if form == "json":
            return as_json("", *calls)
        return "".join(as_xml(name, **arguments) for name, arguments in calls)

    def test_more_than_sixteen_calls_are_cut(self, form: ToolForm) -> None:
        answer = self.answer(form, *[("look", {})] * 10_000)
        _, end = read(AnswerReader(TOOLS, form), [answer])
        assert [each.problem for each in end.calls[:-1]] == [""] * MOST_CALLS
        assert "Only the first 16 calls" in end.calls[-1].problem

    def test_long_arguments_and_names_are_cut(self, form: ToolForm) -> None:
        long = ("go", {"to": "x" * MOST_ARGUMENTS})
        answer = self.answer(form, long, ("n" * 100, {}), ("look", {}))
        _, end = read(AnswerReader(TOOLS, form), answer)
        first, second, third = end.calls
        assert (first.arguments, third.problem) == ("{}", "")
        assert "more than 20,000" in first.problem
        assert len(second.name) == 64


@pytest.mark.parametrize(
    "unit",
    ["x", "{", "<", '"', "\\", "<call ", "</call>", "[", "1,", "``` ", "go("][:: few(3, 1)],
)
@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("json", ""),
        ("json", '{"text": "'),
        ("json", '{"calls": ['),
        ("xml", ""),
        ("xml", '<call name="go">'),
    ],
)
def test_no_answer_takes_longer_than_its_length(form: ToolForm, begin: str, unit: str) -> None:
    """The test would take minutes if the time of reading grew with the square of the answer's
    length, so it need not measure the time."""
    read(AnswerReader(TOOLS, form), begin + unit * (60_000 // len(unit)))


class TestTheForm:
    @pytest.mark.parametrize(
        ("model", "preferred", "form"),
        [
            ("gpt-4o", "native", "native"),
            ("gpt-4o", "json", "json"),
            ("gpt-4o", "xml", "xml"),
            # This model accepts no tools while it reasons, but it accepts JSON schemas.
            ("gpt-5.6", "native", "json"),
            ("claude-opus-4", "native", "native"),
            # This model accepts no JSON schemas and writes better XML than JSON.
            ("claude-opus-4", "json", "xml"),
            ("claude-2", "native", "xml"),
            ("a-model-nobody-knows", "native", "json"),
            ("embedded:qwen2.5-coder-1.5b", "native", "json"),
            # This model does not keep to XML.
            ("embedded:qwen2.5-coder-1.5b", "xml", "json"),
        ],
    )
    def test_as_the_agent_prefers_and_the_model_can(
        self, model: str, preferred: ToolForm, form: ToolForm
    ) -> None:
        assert tool_form_for(facts_of(model), preferred) == form

    def test_a_model_is_told_the_tools_in_the_form_that_is_read(self) -> None:
        assert tools_layer("native", TOOLS).text == ""
        told = tools_layer("json", TOOLS).text
        assert '- look: Looks around. {"type": "object"' in told
        assert '{"text": "what you say, as it is to be read", "calls": [{"name"' in told
        told = tools_layer("xml", TOOLS).text
        example = (
            '<call name="go"><to>...</to><steps>0</steps>'
            "<with_whom><item>...</item></with_whom><how>...</how></call>"
        )
        assert example in told
        _, end = read(AnswerReader(TOOLS, "xml"), [example])
        arguments = {"to": "...", "steps": 0, "with_whom": ["..."], "how": "..."}
        assert calls_of(end) == [("go", arguments)]

    def test_the_schema_of_an_answer_names_tools_and_arguments(self) -> None:
        schema = answer_schema(TOOLS)
        assert list(schema["properties"]) == ["text", "calls"]
        go, look = schema["properties"]["calls"]["items"]["anyOf"]
        assert go["properties"]["name"] == {"type": "string", "enum": ["go"]}
        assert go["properties"]["arguments"]["properties"]["how"]["enum"] == ["slowly", "fast"]
        assert look["properties"]["arguments"]["additionalProperties"] is False
        only = answer_schema([LOOK])["properties"]["calls"]["items"]
        assert only["properties"]["name"]["enum"] == ["look"]
