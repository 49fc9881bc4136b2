"""The engine reads a payload from the JSON of an answer, or refuses the answer with InvalidReply.

If a part of the answer is left out, a remark must say so.
"""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.prompting.forms.schemas import InvalidReply, Payload, Reading, TurnDelta, check_payload
from agents.prompting.forms.tolerant_json import read_json
from agents.prompting.tests.payloads import (
    DELTA,
    assert_read_or_refused,
    assert_says_no_more,
    changed,
    deeply_nested,
    payloads_of,
)

TEXT = json.dumps(DELTA)
BRACKETS = [
    ("[", "]"),
    ("{", "}"),
    ('{"a":', "}"),
    ('{"memory_type":', ",}"),
    ("{'a':[", ",],}"),
    ("(", ")"),
    ('"[', "]"),
    ("/*{", "}*/"),
]


def check(payload: Payload) -> None:
    check_payload(payload, TurnDelta)


def read(text: str, *, is_last_try: bool = False) -> Reading:
    return read_json(text, check, is_last_try=is_last_try)


def refusal(text: str, *, is_last_try: bool = False) -> str:
    with pytest.raises(InvalidReply) as refused:
        read(text, is_last_try=is_last_try)
    return str(refused.value)


def written(value: Any, *, quote: str = '"', last: str = "") -> str:
    """Write a value as JSON, with `quote` as its quotation mark and `last` after the last entry of
    each list and object."""
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)[1:-1]
        return (
            quote
            + (text if quote == '"' else text.replace('\\"', '"').replace(quote, f"\\{quote}"))
            + quote
        )
    if isinstance(value, dict):
        parts = [
            f"{written(key, quote=quote)}: {written(part, quote=quote, last=last)}"
            for key, part in value.items()
        ]
        return "{" + ", ".join(parts) + (last if parts else "") + "}"
    if isinstance(value, list):
        parts = [written(part, quote=quote, last=last) for part in value]
        return "[" + ", ".join(parts) + (last if parts else "") + "]"
    return json.dumps(value)


WITH_COMMAS = written(DELTA, last=",")
IN_SINGLE_QUOTES = written(DELTA, quote="'")


class TestAsItStands:
    @pytest.mark.parametrize(
        "around",
        [
            "```json\n{}\n```",
            "Here is the delta:\n\n{}\n\nI hope {{this}} helps!",
            '<think>First {{a}} draft: {{"range": {{"from_marker": 1}}}}</think>{}',
            "\ufeff  {}  ",
        ],
    )
    def test_it_passes_over_what_stands_around(self, around: str) -> None:
        text = around.replace("{}", TEXT).replace("{{", "{").replace("}}", "}")
        assert read(text) == Reading(DELTA)

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "no JSON object"),
            ("I would rather not.", "no JSON object"),
            ('["a"]', "no JSON object"),
            ('{"unexpected": true}', "memory_type is missing"),
            ('{"memory_type": "turn_del', "breaks off"),
            (TEXT[:-60], "breaks off"),
            (TEXT + TEXT, "2 JSON objects"),
            (WITH_COMMAS + WITH_COMMAS, "2 JSON objects"),
            ('{"memory_type": "turn_delta",}', "range is missing"),
            ('{"memory_type": "turn_delta", "where": sea', "breaks off"),
            ('{"a":' * 5000 + "1" + "}" * 5000, "nested too deeply"),
            ('{"memory_type": "turn_delta", "x": ' + "[" * 30 + "]" * 30 + "}", "nested"),
            ('{"memory_type": "turn_delta", "x": ' + "[" * 5000 + "]" * 5000 + ",}", "nested"),
            ('{"memory_type": "turn_delta", "x": NaN}', "not finite"),
            ('{"memory_type": "turn_delta", "x": 1e999}', "not finite"),
            ('{"memory_type": "turn_delta", "x": "\\u0000"}', "not text"),
        ],
    )
    def test_what_is_no_reply_is_refused_in_words(self, text: str, words: str) -> None:
        assert words in refusal(text)

    @pytest.mark.parametrize("is_last_try", [False, True])
    @pytest.mark.parametrize("end", ["", "}", ",}"])
    @pytest.mark.parametrize("depth", [19, 200, 500, 990, 5_000])
    @pytest.mark.parametrize(("begin", "close"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
    def test_what_is_nested_too_deeply_is_no_reply_however_it_is_written(
        self, begin: str, close: str, depth: int, end: str, is_last_try: bool
    ) -> None:
        nested = begin * depth + "1" + close * depth
        text = '{"memory_type": "turn_delta", "x": ' + nested + end
        assert "nested too deeply" in refusal(text, is_last_try=is_last_try)


class TestMended:
    @pytest.mark.parametrize(
        "text",
        [
            WITH_COMMAS,
            IN_SINGLE_QUOTES,
            "```json\n" + WITH_COMMAS + "\n```\nThat is {all} of it.",
            "Here {you} are: " + IN_SINGLE_QUOTES + " Is that {fine}?",
            TEXT.replace('"turn_delta",', '"turn_delta", // as "asked" for\n'),
            TEXT.replace('"turn_delta",', '"turn_delta" /* as asked for */,'),
            TEXT.replace('"stakes": "",', '"stakes": ""'),
            re.sub(r'"(\w+)":', r"\1:", TEXT),
            TEXT.replace("]", "],", 1).replace("[]", "[ ]"),
        ],
    )
    def test_it_reads_what_is_malformed_and_says_so(self, text: str) -> None:
        reading = read(text)
        assert reading.payload == DELTA
        assert reading.remark == "the JSON is malformed; 0 words of it were left out"

    @pytest.mark.parametrize("text", ['"[', "d\"'-,2:2e"])
    def test_trailing_commas_change_no_text(self, text: str) -> None:
        payload = changed(DELTA, "state_changes.0.notes", text)
        assert read(written(payload, last=",")).payload == payload

    def test_words_between_the_entries_are_asked_for_again_before_they_are_left_out(self) -> None:
        text = TEXT.replace('"canon_locks": []', '"canon_locks": ["a"] the bell is cracked')
        assert "malformed at character" in refusal(text)
        reading = read(text, is_last_try=True)
        assert reading.payload["canon_locks"] == ["a"]
        assert "4 words" in reading.remark


class TestBrokenOff:
    @pytest.mark.parametrize(
        ("cut", "left"),
        [
            ('"', ["the ferry or the boat", "which door"]),
            ("r", ["the ferry or the boat"]),
            ("wh", ["the ferry or the boat"]),
            ('["', []),
        ],
    )
    def test_on_the_last_try_whole_entries_are_taken(self, cut: str, left: list[str]) -> None:
        questions = ["the ferry or the boat", "which door"]
        text = json.dumps({**DELTA, "contradictions_or_questions": questions})
        reading = read(text[: text.rindex(cut) + len(cut)], is_last_try=True)
        assert reading.payload == {**DELTA, "contradictions_or_questions": left}
        assert reading.remark.startswith("the JSON breaks off; ")

    @pytest.mark.parametrize("key", ["canon_locks", "contradictions_or_questions"])
    @pytest.mark.parametrize("cut", ['"{}', '"{}"', '"{}":', '"{}": '])
    def test_a_list_that_was_not_reached_is_never_taken_for_an_empty_one(
        self, key: str, cut: str
    ) -> None:
        text = TEXT[: TEXT.rindex(f'"{key}"')] + cut.replace("{}", key)
        assert "missing" in refusal(text, is_last_try=True)


class TestAnyText:
    @given(
        text=st.text() | st.text(alphabet="{}[]\",:0aé\n\\'/*#`"),
        is_last_try=st.booleans(),
        begin=st.sampled_from(["", "{", '{"memory_type": "turn_delta", ', TEXT[:-2]]),
    )
    @settings(max_examples=80)
    def test_it_is_a_payload_or_refused(self, text: str, is_last_try: bool, begin: str) -> None:
        assert_read_or_refused(lambda: read(begin + text, is_last_try=is_last_try))

    @given(
        begin=st.sampled_from(
            ["", '{"memory_type": "turn_delta", "x": ', TEXT[:-2], TEXT[:-1] + ","]
        ),
        nested=deeply_nested(*BRACKETS),
        end=st.sampled_from(["", "}", ",}", "]}", TEXT]),
        is_last_try=st.booleans(),
    )
    @settings(max_examples=80)
    def test_however_deep_it_is_a_payload_or_refused(
        self, begin: str, nested: str, end: str, is_last_try: bool
    ) -> None:
        assert_read_or_refused(lambda: read(begin + nested + end, is_last_try=is_last_try))

    @given(
        payload=payloads_of(TurnDelta),
        at=st.integers(0, 10_000),
        length=st.integers(0, 8),
        instead=st.text(alphabet="{}[]\",:0a\n\\'/", max_size=4),
        is_last_try=st.booleans(),
    )
    @settings(max_examples=50)
    def test_any_change_of_a_payload_is_read_or_refused(
        self, payload: Payload, at: int, length: int, instead: str, is_last_try: bool
    ) -> None:
        text = json.dumps(payload, ensure_ascii=False)
        at %= len(text)
        changed_text = text[:at] + instead + text[at + length :]
        assert_read_or_refused(lambda: read(changed_text, is_last_try=is_last_try))

    @given(payload=payloads_of(TurnDelta), at=st.integers(0, 10_000))
    @settings(max_examples=50)
    def test_a_payload_cut_anywhere_never_says_what_was_not_written(
        self, payload: Payload, at: int
    ) -> None:
        text = json.dumps(payload)
        try:
            cut = read(text[: at % len(text)], is_last_try=True).payload
        except InvalidReply:
            return
        assert_says_no_more(cut, payload)

    @given(payload=payloads_of(TurnDelta))
    @settings(max_examples=25)
    def test_any_texts_survive_fences_and_prose(self, payload: Payload) -> None:
        text = written(payload)
        assert read(f"Sure!\n```json\n{text}\n```\nDone.") == Reading(payload)
