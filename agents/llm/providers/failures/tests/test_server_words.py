"""Tests of the reader of a refusal: its words are found in each shape, and its kind in each
wording."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.llm.providers.failures.call_errors import ContextOverflow
from agents.llm.providers.failures.failures import refused_or_busy
from agents.llm.providers.failures.server_words import read_words, refusal_in
from agents.llm.providers.failures.subjects import Subject

WORDS = "the lamp is out"
NESTED = json.dumps({"error": {"message": WORDS}})
SHAPES: dict[str, Any] = {
    "error is a text": {"error": WORDS},
    "error.message": {"error": {"message": WORDS, "type": "x", "code": None}},
    "message": {"object": "error", "message": WORDS, "code": 400},
    "detail is a text": {"detail": WORDS},
    "detail is an object": {"detail": {"msg": WORDS, "type": "bad_input"}},
    "detail is a list": {"detail": [{"loc": ["body"], "msg": WORDS, "input": "a story"}]},
    "errors is a list": {"errors": [{"message": WORDS}]},
    "errors is a list of texts": {"errors": [WORDS]},
    "errors is an object of lists": {"errors": {"body": [WORDS]}},
    "an array around it": [{"error": {"code": 400, "message": WORDS}}],
    "metadata.raw": {"error": {"message": "Provider returned error", "metadata": {"raw": WORDS}}},
    "metadata.raw is JSON": {"error": {"message": "No.", "metadata": {"raw": NESTED}}},
    "a message is JSON": {"error": {"message": NESTED}},
    "a message ends in JSON": {"error": {"message": f"The gateway says: {NESTED}"}},
    "JSON in JSON in JSON": {"error": json.dumps({"message": NESTED})},
    "a problem document": {"type": "about:blank", "title": "Bad", "status": 400, "detail": WORDS},
    "a name that nobody knows": {"success": False, "cause": {"en": WORDS}},
    "a JSON text": WORDS,
}
BODIES = {name: json.dumps(shape).encode() for name, shape in SHAPES.items()} | {
    "plain text": WORDS.encode(),
    "text with a mark before it": b"\xef\xbb\xbf" + WORDS.encode(),
    "a page": f"<html>\n<head><title>400: {WORDS}</title></head><p>nginx</p></html>".encode(),
    "a page without a title": f"<!DOCTYPE html><body><h1>{WORDS}</h1></body>".encode(),
    "XML": f"<?xml version='1.0'?><Error><Message>{WORDS}</Message></Error>".encode(),
}


@pytest.mark.parametrize("name", BODIES)
def test_words_are_found_wherever_they_stand(name: str) -> None:
    said = read_words(BODIES[name]).shown("")
    assert WORDS in said
    assert "a story" not in said
    assert not set(said) & set("{}<>")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: (
    st.lists(inner) | st.dictionaries(
        st.sampled_from(["error", "message", "detail", "code", "param", "loc", "msg", "raw"])
        | st.text(), inner)
), max_leaves=30))  # fmt: skip
def test_no_answer_is_too_odd(answer: object) -> None:
    for read in (answer, json.dumps(answer).encode()):
        failure = refused_or_busy(Subject("The model"), 0, read, secret="sk-0123456789")
        assert str(failure)
        assert len(failure.error.said) <= 301
    refusal_in(answer)


def test_deep_answers_are_bounded() -> None:
    nested: object = WORDS
    for _ in range(300):
        nested = [nested, {"error": [nested]}] if isinstance(nested, str) else {"error": nested}
    assert len(read_words(nested).text) < 100
    assert len(read_words([{"message": f"{at}" * 50} for at in range(10_000)]).text) <= 4_000


@pytest.mark.parametrize(
    ("piece", "is_refusal"),
    [
        ({"error": {"message": "No."}}, True),
        ({"error": "No."}, True),
        ([{"error": "No."}], True),
        ({"choices": [{"error": {"code": 502}, "delta": {}}]}, True),
        ({"object": "error", "message": "No.", "code": 400}, True),
        ({"type": "error", "text": "No."}, True),
        ({"detail": "No."}, True),
        ({"errors": ["No."]}, True),
        ({"error": None, "choices": []}, False),
        ({"choices": [{"delta": {"content": "error"}, "error": None}]}, False),
        ({"choices": [], "usage": {}}, False),
        ({"message": {"role": "assistant", "content": "Yes."}}, False),
        ({}, False),
        (None, False),
        ("error", False),
    ],
)
def test_a_refusal_under_status_200(piece: object, *, is_refusal: bool) -> None:
    assert bool(refusal_in(piece)) is is_refusal


OVERFLOWS = [
    ("This model's maximum context length is 8192 tokens. However, your messages resulted in "
     "10000 tokens. Please reduce the length of the messages.", 8_192),
    ("the request exceeds the available context size, try increasing it", None),
    ("request (5000 tokens) exceeds the available context size (4096 tokens)", 4_096),
    ("This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
     "(4000 in the messages, 1000 in the completion). Please reduce max_tokens.", 4_096),
    ("'max_tokens' is too large: 16000. This model's maximum context length is 4,096 tokens and "
     "your request has 300 input tokens (16000 > 4096 - 300).", 4_096),
    ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4_096),
    ("The input (5000 tokens) is longer than the model's context length (4096 tokens).", 4_096),
    ("`inputs` must have less than 4096 tokens. Given: 5000", 4_096),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096.", 4_096),
    ("the input length exceeds the context length", None),
    ("prompt too long; exceeded max context length by 1000 tokens", None),
    ("Trying to keep the first 5000 tokens when context the overflows. However, the model is "
     "loaded with context length of only 4096 tokens, which is not enough.", 4_096),
    ("Cannot truncate prompt with n_keep (5000) >= n_ctx (4096)", 4_096),
    ("This endpoint's maximum context length is 4096 tokens. You requested about 5000.", 4_096),
    ("prompt is too long: 205000 tokens > 200000 maximum", 200_000),
    ("input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000", 200_000),
    ("The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
     1_048_576),
    ("Prompt contains 40000 tokens, too large for model with 32768 maximum context length", 32_768),
    ("too many tokens: total number of tokens in the prompt cannot exceed 4081", 4_081),
    ("Input is too long for requested model.", None),
    ("the prompt has 5000 tokens but the context is 4096", 4_096),
    ("This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
     131_072),
    ("Your request exceeded model token limit : 8192 (requested: 10000)", 8_192),
    ("prompt token count of 10000 exceeds the limit of 8000", 8_000),
    ("invalid params, context window exceeds limit", None),
    ("Range of input length should be [1, 30720]", 30_720),
    ("Prompt length 5000 is greater than max_seq_len 4096", 4_096),
    ("The prompt's token count of 5000 is beyond the model's limit of 4096.", 4_096),
    ("input tokens exceed the limit: 4096", 4_096),
    ("\u8f93\u5165\u8d85\u8fc7\u6700\u5927\u957f\u5ea6\u9650\u5236 8192 tokens", 8_192),
    ("This request's tokens (5000) exceeds max allowed length 4096", 4_096),
    ("total tokens (5000) exceeds model's max sequence length (4096)", 4_096),
    ("Token limit exceeded: your input is 5,000 tokens, the limit is 4,096 tokens.", 4_096),
    ("Token indices sequence length is longer than the specified maximum sequence length for "
     "this model (5000 > 4096).", 4_096),
    ("This model only supports 4K context; got 5K", None),
    ("Your prompt exceeds the model's capacity of 4096 tokens.", 4_096),
    ("Conversation too long: 5000/4096 tokens", 4_096),
    ("The total length of your messages exceeds the window.", None),
    ("The messages are too long for this model", None),
    ("Out of context: the prompt has 5000 tokens", None),
    ("Request too large for gpt-9 on tokens per min (TPM): Limit 6000, Requested 8000.", None),
]  # fmt: skip


@pytest.mark.parametrize("status", [0, 400, 500])
@pytest.mark.parametrize(("said", "window"), OVERFLOWS)
def test_an_overflow_is_said_as_one(said: str, window: int | None, status: int) -> None:
    failure = refused_or_busy(Subject("The model"), status, {"error": said})
    assert isinstance(failure.error, ContextOverflow)
    assert failure.error.permanent
    assert not failure.is_passing
    assert "STORYENGINE_CONTEXT_WINDOW" in str(failure)
    assert failure.error.window == window


@pytest.mark.parametrize(
    ("body", "window"),
    [
        ({"error": {"code": "context_length_exceeded", "message": "No."}}, None),
        ({"error": {"type": "exceed_context_size_error", "message": "No.", "n_ctx": 4096}}, 4_096),
        ({"error": {"type": "exceed_context_size_error", "message": "No.", "n_ctx": 0}}, None),
    ],
)
def test_an_overflow_is_known_by_its_code(body: object, window: int | None) -> None:
    error = refused_or_busy(Subject("The model"), 500, body).error
    assert isinstance(error, ContextOverflow)
    assert error.window == window


@pytest.mark.parametrize(
    ("status", "error", "is_passing", "told"),
    [
        (403, {"message": "Your input was flagged for violence."}, False, "moderation"),
        (400, {"code": "content_filter", "message": "No."}, False, "moderation"),
        (400, {"innererror": {"code": "ResponsibleAIPolicyViolation"}}, False, "moderation"),
        (400, {"message": "Content Exists Risk"}, False, "moderation"),
        (403, {"message": "This key may not use this model."}, False, "does not allow"),
        (503, {"message": "Loading model"}, True, "loading"),
        (503, {"message": "The model org/m is currently loading"}, True, "loading"),
        (400, {"message": "The model is loading"}, True, "loading"),
        (404, {"message": "Model not loaded"}, False, "does not know"),
        (500, {"message": "error loading model"}, True, "trouble"),
        (429, {"code": "insufficient_quota"}, False, "credit"),
        (400, {"message": "Your credit balance is too low."}, False, "credit"),
        (0, {"type": "invalid_request_error", "message": "No."}, False, "(400)"),
        (0, {"status": "RESOURCE_EXHAUSTED", "message": "No."}, True, "(429)"),
        (0, {"type": "overloaded_error", "message": "No."}, True, "(503)"),
        (0, {"message": "No."}, True, "(500)"),
    ],
)
def test_each_kind_has_its_sentence(
    status: int, error: object, told: str, *, is_passing: bool
) -> None:
    failure = refused_or_busy(Subject("The model"), status, {"error": error})
    assert failure.is_passing is is_passing
    assert failure.error.permanent is not is_passing
    assert told in str(failure)
