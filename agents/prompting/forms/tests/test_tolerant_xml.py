"""The engine reads the same payloads from XML as from JSON, or refuses the answer with
InvalidReply."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.prompting.forms.schemas import (
    InvalidReply,
    Payload,
    Reading,
    TurnDelta,
    WorldChapterLock,
    check_payload,
    json_schema_for,
)
from agents.prompting.forms.tolerant_xml import describe_as_xml, read_xml
from agents.prompting.tests.payloads import (
    DELTA,
    LOCK,
    SHAPES,
    as_xml,
    assert_read_or_refused,
    assert_says_no_more,
    deeply_nested,
    payloads_of,
)

# Some lists have two entries, because a reader could treat a single entry differently.
RICH = {
    **DELTA,
    "major_events": [
        {"event": "a knock", "cause": "", "effect": "fear", "participants": ["Mara", "Tom"]},
        {"event": "a fall", "cause": "ice", "effect": "", "participants": []},
    ],
    "canon_locks": ["the bell is cracked", "Tom <b>knows</b> & waits"],
    "contradictions_or_questions": ["who knocked"],
}
TEXT = as_xml(RICH)
TAGS = [
    (f"<{name}>", f"</{name}>")
    for name in ("a", "item", "canon_locks", "range", "turn_delta", "b:c")
]


def check(payload: Payload) -> None:
    check_payload(payload, TurnDelta)


def read(text: str, *, is_last_try: bool = False) -> Reading:
    return read_xml(text, TurnDelta, check, is_last_try=is_last_try)


def refusal(text: str, *, is_last_try: bool = False) -> str:
    with pytest.raises(InvalidReply) as refused:
        read(text, is_last_try=is_last_try)
    return str(refused.value)


def without(text: str, pattern: str) -> str:
    return re.sub(pattern, "", text)


class TestDescription:
    @pytest.mark.parametrize(("shape", "payload"), SHAPES)
    def test_it_names_every_key_and_shows_how_lists_are_written(
        self, shape: Any, payload: dict[str, Any]
    ) -> None:
        text = describe_as_xml(shape)
        assert text.startswith(f"<{payload['memory_type']}>")
        assert text.endswith(f"</{payload['memory_type']}>")
        for key in payload.keys() - {"memory_type"}:
            assert f"<{key}>" in text
        assert "<canon_locks><item>...</item></canon_locks>" in text

    @pytest.mark.parametrize(("shape", "payload"), SHAPES)
    def test_what_it_shows_can_be_read(self, shape: Any, payload: dict[str, Any]) -> None:
        found = read_xml(describe_as_xml(shape), shape, lambda _: None, is_last_try=False).payload
        assert list(found) == list(json_schema_for(shape)["properties"])


class TestReading:
    @pytest.mark.parametrize(("shape", "payload"), [*SHAPES, (TurnDelta, RICH)])
    def test_it_returns_the_payload(self, shape: Any, payload: dict[str, Any]) -> None:
        def check_shape(found: Payload) -> None:
            check_payload(found, shape)

        reading = read_xml(as_xml(payload), shape, check_shape, is_last_try=False)
        assert reading == Reading(payload)

    @pytest.mark.parametrize(
        "text",
        [
            "<think>Hm, <where> is it?</think>\nHere it is:\n```xml\n" + TEXT + "\n```\nDone <3",
            '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY b "c">]>' + TEXT,
            TEXT.replace("<canon_locks>", "<canon_locks><!-- <item>never</item> -->"),
            TEXT.replace("<turn_delta>", "<turn_delta><mood>dark <b>and</b> cold</mood>"),
            TEXT.replace("<range>", '<range id="1">'),
            TEXT.replace("<participants></participants>", "<participants />"),
            TEXT.replace("a knock", "<![CDATA[a knock]]>"),
            TEXT.replace("a knock", "a <i>knock</i>"),
            TEXT.replace("<item>who knocked</item>", "who knocked"),
            TEXT.replace("<item>who knocked</item>", "<question>who knocked</question><item/>"),
            TEXT.replace(
                "<item>Mara</item><item>Tom</item></participants>",
                "Mara</participants><participants>Tom</participants>",
            ),
            without(TEXT, "</turn_delta>"),
            TEXT[:-4],
            without(TEXT, "</item>"),
            without(TEXT, "</(event|where|item|canon_locks|range)>"),
            without(
                TEXT, r"(?<=<major_events>)<item>|</item>(?=\s*<item><event>)|<item>(?=<event>)"
            ),
            without(TEXT, "</?turn_delta>") + "<memory_type>turn_delta</memory_type>",
        ],
    )
    def test_it_passes_over_what_is_malformed(self, text: str) -> None:
        assert text != TEXT
        assert read(text).payload == RICH

    def test_characters_are_unescaped_once_and_nothing_is_expanded(self) -> None:
        text = '<!DOCTYPE a [<!ENTITY b "boom">]>' + TEXT.replace("a knock", "&#233; &amp;lt; &b;")
        assert read(text).payload["major_events"][0]["event"] == "é &lt; &b;"

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("", "no <turn_delta>"),
            ("I would rather not.", "no <turn_delta>"),
            (as_xml(LOCK), "no <turn_delta>"),
            (TEXT + TEXT, "2 times"),
            ("<turn_delta></turn_delta>", "range is missing"),
            (without(TEXT, "<canon_locks>.*</canon_locks>"), "canon_locks is missing"),
            (TEXT.replace(">7</prompt", ">seven</prompt"), "must be a whole number"),
            (TEXT.replace("<participants></participants>", "and more"), "stands outside"),
            (TEXT.replace("<item>who", "why <item>who"), "outside"),
            (TEXT.replace("<item>who knocked</item>", "<item>who</item> knocked"), "outside"),
            (TEXT.replace("<where>the ferry</where>", ""), "where is missing"),
            (TEXT.replace("the ferry", "\0"), "not text"),
        ],
    )
    def test_what_is_no_reply_is_refused_in_words(self, text: str, words: str) -> None:
        assert words in refusal(text)


class TestBrokenOff:
    @pytest.mark.parametrize("end", ["knocked", "</item", "<contradictions_or_questions>"])
    def test_it_is_asked_for_again(self, end: str) -> None:
        assert "breaks off" in refusal(TEXT[: TEXT.rindex(end) + len(end)])

    @pytest.mark.parametrize(
        ("end", "left"),
        [
            ("who</item><item>knocked</ite", ["who"]),
            ("who</item>", ["who"]),
            ("who kno", []),
            ("", []),
        ],
    )
    def test_on_the_last_try_whole_entries_are_taken(self, end: str, left: list[str]) -> None:
        start = TEXT[: TEXT.rindex("<contradictions_or_questions>")]
        begin = f"{start}<contradictions_or_questions>" + (f"<item>{end}" if end else "")
        reading = read(begin, is_last_try=True)
        assert reading.payload == {**RICH, "contradictions_or_questions": left}
        assert reading.remark.startswith("the XML breaks off; ")


class TestAnyText:
    @given(
        parts=st.lists(
            st.sampled_from(
                [*re.findall(r"<[^>]+>", TEXT), "<", ">", "/", "<!--", "<![CDATA[", "&"]
            )
            | st.text(max_size=5),
            max_size=30,
        ),
        begin=st.sampled_from(["", "<turn_delta>", TEXT[:-40]]),
        is_last_try=st.booleans(),
    )
    @settings(max_examples=80)
    def test_it_is_a_payload_or_refused(
        self, parts: list[str], begin: str, is_last_try: bool
    ) -> None:
        assert_read_or_refused(lambda: read(begin + "".join(parts), is_last_try=is_last_try))

    @given(
        begin=st.sampled_from(["", "<turn_delta>", TEXT[:-40], TEXT[: TEXT.index("ferry")]]),
        nested=deeply_nested(*TAGS, ("<!--", "-->"), ("<![CDATA[", "]]>"), ("<item/>", "&#60;")),
        end=st.sampled_from(["", "</turn_delta>", TEXT[-40:]]),
        is_last_try=st.booleans(),
    )
    @settings(max_examples=80)
    def test_however_deep_it_is_a_payload_or_refused(
        self, begin: str, nested: str, end: str, is_last_try: bool
    ) -> None:
        assert_read_or_refused(lambda: read(begin + nested + end, is_last_try=is_last_try))

    @pytest.mark.parametrize("shape", [WorldChapterLock, TurnDelta])
    @given(data=st.data())
    @settings(max_examples=25)
    def test_any_payload_comes_back_as_it_was_written(self, shape: Any, data: Any) -> None:
        payload = data.draw(payloads_of(shape))
        reading = read_xml(
            f"Sure:\n{as_xml(payload)}\nDone.", shape, lambda _: None, is_last_try=False
        )
        assert reading == Reading(payload)

    @given(payload=payloads_of(TurnDelta), at=st.integers(0, 10_000))
    @settings(max_examples=50)
    def test_a_payload_cut_anywhere_never_says_what_was_not_written(
        self, payload: Payload, at: int
    ) -> None:
        text = as_xml(payload)
        try:
            cut = read(text[: at % len(text)], is_last_try=True).payload
        except InvalidReply:
            return
        # The memory type comes first, because the outermost tag names it.
        assert_says_no_more(cut, {"memory_type": payload["memory_type"], **payload})
