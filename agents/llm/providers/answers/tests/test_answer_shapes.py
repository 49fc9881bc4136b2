"""Tests of how an answer may end, and of the shapes in which servers and gateways send one."""

import json
from dataclasses import replace

import pytest

from agents.llm.providers.base import ToolCall, ToolSchema
from agents.llm.providers.failures.call_errors import (
    OnlyThoughts,
    ProviderBusy,
    StreamBroken,
)
from agents.llm.providers.tests.chat_server import (
    STREAM_HEAD,
    Answer,
    Exchange,
    responds,
    says,
    says_at_once,
    streams,
)
from agents.tests.calling import REQUEST, Outcome, call, chunk, delta_chunk

pytestmark = pytest.mark.usefixtures("calls_allowed")

SAID = "I lift the lamp."
WORDS = delta_chunk(content=SAID)
END = delta_chunk("stop")
DONE = "[DONE]"
GO = ToolSchema("go", "Go there.", {"type": "object", "properties": {}})


def sends(body: bytes) -> Answer:
    """Make a response with this body, whatever it is."""

    async def answer(exchange: Exchange) -> None:
        await exchange.send_raw(STREAM_HEAD + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))

    return answer


def whole_chunk(content: object, reason: str | None = None, **fields: object) -> str:
    message = {"role": "assistant", "content": content, **fields}
    return chunk(choices=[{"index": 0, "message": message, "finish_reason": reason}])


def ended_so(reason: object, *, is_stream: bool = True) -> Outcome:
    if not is_stream:
        return call(says_at_once(SAID, reason), request=replace(REQUEST, streams=False))  # type: ignore[arg-type]
    end = chunk(choices=[{"index": 0, "delta": {}, "finish_reason": reason}])
    return call(streams(WORDS, end, DONE))


class TestTheReasonOfTheEnd:
    @pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
    @pytest.mark.parametrize(
        "reason",
        ["stop", "STOP", "end_turn", "eos", "stop_sequence", "tool_calls", "FinishReason.STOP"],
    )
    def test_a_reply_is_whole(self, reason: str, *, is_stream: bool) -> None:
        outcome = ended_so(reason, is_stream=is_stream)
        assert outcome.text == SAID
        assert not outcome.end.was_cut

    @pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
    @pytest.mark.parametrize(
        "reason",
        [
            "length",
            "max_tokens",
            "MAX_TOKENS",
            "model_length",
            "maxTokens",
            "Length",
            "max_new_tokens",
            "token_limit_reached",
        ],
    )
    def test_a_reply_is_cut(self, reason: str, *, is_stream: bool) -> None:
        outcome = ended_so(reason, is_stream=is_stream)
        assert outcome.text == SAID
        assert outcome.end.was_cut

    @pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
    @pytest.mark.parametrize(
        ("reason", "told"),
        [
            ("error", "error of its own"),
            ("abort", "error of its own"),
            ("Cancelled", "error of its own"),
            ("server_error", "error of its own"),
            ("USER_CANCEL", "error of its own"),
            ("moderated", "content filter"),
            ("SAFETY", "content filter"),
            ("RECITATION", "content filter"),
            ("content_filter", "content filter"),
            ("contentFilter", "content filter"),
            ("insufficient_system_resource", "ran out of room"),
        ],
    )
    def test_a_reply_has_failed_and_keeps_its_text(
        self, reason: str, told: str, *, is_stream: bool
    ) -> None:
        outcome = ended_so(reason, is_stream=is_stream)
        assert outcome.text == SAID
        assert isinstance(outcome.error, StreamBroken)
        assert told in str(outcome.error)

    def test_an_error_in_the_choice_keeps_the_text_and_its_words(self) -> None:
        error = {"code": 502, "message": "Upstream idle timeout"}
        choice = {"index": 0, "delta": {"content": ""}, "finish_reason": "error", "error": error}
        outcome = call(streams(WORDS, chunk(choices=[choice]), DONE))
        assert outcome.text == SAID
        assert isinstance(outcome.error, StreamBroken)
        assert "Upstream idle timeout" in outcome.error.said

    def test_an_unknown_reason_is_an_end_with_one_line_in_the_log(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        assert ended_so("weary").end.was_cut is False
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "weary" in caplog.text

    @pytest.mark.parametrize("reason", [None, "", "null", 7, " "])
    def test_without_a_reason_the_end_mark_is_the_end(self, reason: object) -> None:
        outcome = ended_so(reason)
        assert (outcome.text, outcome.end.was_cut) == (SAID, False)

    def test_without_reason_and_end_mark_it_broke_off(self) -> None:
        assert isinstance(call(streams(WORDS)).error, StreamBroken)


class TestOnlyThoughts:
    @pytest.mark.parametrize("is_stream", [True, False], ids=["streamed", "whole"])
    @pytest.mark.parametrize("reason", ["stop", "length"])
    @pytest.mark.parametrize("said", ["<think>Hm.", "<think>Hm.</think>\n\n", "Hm.\n</think>\n"])
    def test_in_the_text(self, said: str, reason: str, *, is_stream: bool) -> None:
        answer = says(*said, reason=reason) if is_stream else says_at_once(said, reason)
        outcome = call(answer, request=replace(REQUEST, streams=is_stream))
        assert isinstance(outcome.error, OnlyThoughts)
        assert "only thought" in str(outcome.error)
        assert "Hm." in "".join(outcome.taken_off)
        assert outcome.text == ""

    @pytest.mark.parametrize(
        "name", ["reasoning_content", "reasoning", "thinking", "thinking_content", "thoughts"]
    )
    def test_in_a_field_of_its_own(self, name: str) -> None:
        outcome = call(streams(delta_chunk(**{name: "Hm."}), END, DONE))
        assert isinstance(outcome.error, OnlyThoughts)
        assert outcome.taken_off == ["Hm."]

    @pytest.mark.parametrize(
        "thought",
        [
            {"type": "thinking", "text": "Hm."},
            {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"text": "Hm.", "thought": True},
        ],
    )
    def test_a_part_of_a_list_says_that_it_is_one(self, thought: dict[str, object]) -> None:
        said = {"type": "text", "text": {"value": SAID}}
        for parts in ([[thought, said]], [[thought], [said]], [[thought], SAID]):
            outcome = call(streams(*(delta_chunk(content=one) for one in parts), END, DONE))
            assert (outcome.text, outcome.taken_off) == (SAID, ["Hm."])

    def test_a_reply_with_a_call_needs_no_words(self) -> None:
        called = {"index": 0, "id": "a", "function": {"name": "go", "arguments": "{}"}}
        deltas = [delta_chunk(content="<think>Hm.</think>"), delta_chunk(tool_calls=[called])]
        outcome = call(streams(*deltas, END, DONE), request=replace(REQUEST, tools=(GO,)))
        assert outcome.tool_calls == [ToolCall("a", "go", "{}")]
        assert not outcome.end.was_cut


class TestShapes:
    @pytest.mark.parametrize(
        "answer",
        [
            says_at_once(SAID),
            responds(200, json.loads(whole_chunk(SAID))),
            sends(json.dumps(json.loads(whole_chunk(SAID, "stop")), indent=2).encode()),
            sends(b"\xef\xbb\xbf\n" + whole_chunk(SAID, "stop").encode()),
            sends(f"{WORDS}\n{END}\n".encode()),
            streams(whole_chunk(SAID, "stop"), DONE),
            streams(whole_chunk("I lift"), whole_chunk("I lift the"), whole_chunk(SAID, "stop")),
            streams(whole_chunk("I lift "), whole_chunk("the lamp."), DONE),
            streams(WORDS, whole_chunk(SAID, "stop"), DONE),
            streams(WORDS, whole_chunk(f" {SAID}\n", "stop"), DONE),
            streams(delta_chunk(content=f"<think>Hm.</think>{SAID}"), whole_chunk(SAID, "stop")),
            streams(
                chunk(choices=[{"text": "I lift "}]), chunk(choices=[{"text": "the lamp."}]), DONE
            ),
            streams("connected", WORDS, "", "{", END, DONE),
            sends(f"data: {WORDS}\n\ndata: {END}".encode()),
            sends(f"data: {WORDS}\n\ndata: {DONE}".encode()),
            sends(
                f": hello\r\nevent: message\r\ndata:{WORDS}\r\n\r\ndata: {DONE}\r\n\r\n".encode()
            ),
            streams(delta_chunk(content="\n\n   \n"), WORDS, END, DONE),
            streams(chunk(choices=[{"index": 1, "delta": {"content": "No."}}]), WORDS, END, DONE),
            streams(
                WORDS,
                chunk(choices=[{"index": 1, "delta": {"content": "No."}, "finish_reason": "stop"}]),
                END,
                DONE,
            ),
            streams(
                chunk(
                    choices=[
                        {"index": 1, "delta": {"content": "No."}},
                        {"index": 0, "delta": {"content": SAID}},
                    ]
                ),
                END,
            ),
        ],
    )
    def test_a_reply_is_the_same_in_every_shape(self, answer: Answer) -> None:
        outcome = call(answer)
        assert (outcome.text, outcome.failure) == (SAID, None)

    def test_halves_of_a_character_are_joined(self) -> None:
        halves = [delta_chunk(content="I smile \ud83d"), delta_chunk(content="\ude00.")]
        assert call(streams(*halves, END, DONE)).text == "I smile \U0001f600."


class TestPiecesOfCalls:
    def test_a_call_in_pieces_is_joined(self) -> None:
        fragments = [
            {"index": 0, "id": "a", "function": {"name": "go", "arguments": '{"to": '}},
            {"index": 0, "function": {"arguments": '"quay"}'}},
        ]
        deltas = [delta_chunk(tool_calls=[one]) for one in fragments]
        outcome = call(streams(*deltas, END, DONE), request=replace(REQUEST, tools=(GO,)))
        assert outcome.tool_calls == [ToolCall("a", "go", '{"to": "quay"}')]

    def test_a_message_that_repeats_calls_makes_none_twice(self) -> None:
        called = {"index": 0, "id": "a", "function": {"name": "go", "arguments": "{}"}}
        answer = streams(
            delta_chunk(tool_calls=[called]), whole_chunk(None, "stop", tool_calls=[called])
        )
        outcome = call(answer, request=replace(REQUEST, tools=(GO,)))
        assert outcome.tool_calls == [ToolCall("a", "go", "{}")]

    def test_a_call_in_a_channel_is_handed_on_as_other_models_write_calls(self) -> None:
        said = (
            "<|channel|>commentary to=functions.go <|constrain|>json<|message|>"
            '{"to": "quay"}<|call|>'
        )
        told = '<tool_call>{"name": "go", "arguments": {"to": "quay"}}</tool_call>'
        assert call(says(*said)).text == told


class TestAnAnswerThatBreaksOffBeforeItsFirstWord:
    """The call is made again, and what came of it comes again too."""

    THOUGHT = delta_chunk(reasoning_content="Hm.")

    def test_the_text_that_the_last_try_held_back_is_kept(self) -> None:
        begun = "Here is my tho"
        busy = json.dumps({"error": {"message": "Overloaded", "code": 503}})
        outcome = call(*[streams(delta_chunk(content=begun), busy)] * 3)
        assert outcome.text == begun
        assert isinstance(outcome.error, ProviderBusy)
