"""Tests of a server that refuses a field of the request: the call is made without this field."""

from dataclasses import replace
from typing import Any

import pytest

from agents.llm.providers.failures.call_errors import ContextOverflow, ProviderRefused
from agents.llm.providers.failures.field_refusals import refused_field
from agents.llm.providers.failures.server_words import read_words
from agents.llm.providers.tests.chat_server import Answer, refuses, responds, says, says_at_once
from agents.tests.calling import REQUEST, Outcome, call

pytestmark = pytest.mark.usefixtures("calls_allowed")
FULL = replace(
    REQUEST,
    temperature=0.8,
    top_p=0.9,
    reasoning_effort="low",
    extra_body={"stop": ["\n\n"], "seed": 7, "parallel_tool_calls": False, "min_p": 0.1},
)
# The fields that are sent with a whole request.
SENT = {
    "temperature", "top_p", "max_tokens", "stop", "stream", "stream_options", "response_format",
    "tools", "tool_choice", "reasoning_effort", "seed", "prompt_cache_key", "parallel_tool_calls",
}  # fmt: skip

REFUSALS = [
    ("temperature", "Unsupported value: 'temperature' does not support 0.8 with this model."),
    ("temperature", "invalid temperature: only 1 is allowed for this model"),
    ("temperature", "body.temperature: Input should be less than or equal to 1"),
    ("top_p", "`top_p` is deprecated for this model."),
    ("top_p", "Unknown parameter: topP"),
    ("max_tokens", "Unsupported parameter: 'max_tokens' is not supported with this model. "
                   "Use 'max_completion_tokens' instead."),
    ("max_tokens", "max_tokens is too large: 5000. It supports at most 4096 completion tokens."),
    ("max_tokens", "max_tokens: 16000 > 8192, which is the maximum allowed number of output"),
    ("stop", "Unrecognized request argument supplied: stop"),
    ("stop", "property 'stop' is unsupported"),
    ("stop", "body.stop: Extra inputs are not permitted"),
    ("stop", "Argument not supported on this model: stop"),
    ("stop", "stop sequences are not supported"),
    ("stop", 'json: unknown field "stop"'),
    ("stream_options", "Unrecognized request argument supplied: stream_options"),
    ("stream", "Your organization must be verified to stream this model."),
    ("stream", "Unsupported value: 'stream' does not support true with this model."),
    ("response_format", "This response_format type is unavailable now"),
    ("response_format", "'response_format.type' must be 'json_schema' or 'text'"),
    ("response_format", "Invalid schema for response_format 'reply': 'additionalProperties'"),
    ("response_format", "Structured outputs are not supported by this model"),
    ("response_format", "JSON mode is not enabled for this model"),
    ("response_format", "failed to parse grammar"),
    ("tools", "registry.ollama.ai/library/gemma:2b does not support tools"),
    ("tools", "No endpoints found that support tool use."),
    ("tools", "tools param requires --jinja flag"),
    ("tools", "Function calling is not supported."),
    ("tool_choice", "tool_choice must be auto"),
    ("tool_choice", "Invalid value for 'tool_choice' beside tools"),
    ("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort"),
    ("reasoning_effort", "reasoning is not supported for this model"),
    ("temperature", "`temperature` may only be set to 1 when thinking is enabled."),
    ("temperature", "This model does not take a temperature parameter"),
    ("temperature", "Please remove temperature from your request"),
    ("temperature", "Temperature needs to be in (0, 1]"),
    ("temperature", "Type mismatch of '/temperature', 'number' not in 'string'"),
    ("temperature", "\u4e0d\u652f\u6301\u53c2\u6570temperature"),
    ("temperature", "Le param\u00e8tre temperature n'est pas pris en charge"),
    ("top_p", "top-p is not supported by this model"),
    ("max_tokens", "maxOutputTokens must be less than 8193"),
    ("max_tokens", "The maximum tokens you requested exceeds the model limit of 4096."),
    ("stop", "stop_sequences: each stop sequence must contain non-whitespace"),
    ("stream", "stream=true is not supported"),
    ("response_format", "response_format value as json_schema is enabled only for versions 2024"),
    ("response_format", "The specified schema produces a constraint that has too many states."),
    ("response_format", "response_mime_type application/json is not supported"),
    ("response_format", "output_format: not supported"),
    ("response_format", "'messages' must contain the word 'json' in some form, to use "
     "'response_format' of type 'json_object'."),
    ("tool_choice", "Thinking mode does not support this tool_choice"),
    ("reasoning_effort", 'think value "low" is not supported for this model'),
    ("reasoning_effort", "thinking_budget is out of range"),
    ("seed", "This model doesn't support seed"),
    ("seed", "got an unexpected keyword argument 'seed'"),
    ("seed", "The parameter seed is not supported"),
    ("prompt_cache_key", "Extra inputs are not permitted: prompt_cache_key"),
    ("parallel_tool_calls", "'parallel_tool_calls' is only allowed when tools are specified"),
]  # fmt: skip


@pytest.mark.parametrize(("field", "said"), REFUSALS)
def test_the_field_is_found_in_the_words(field: str, said: str) -> None:
    assert refused_field(read_words({"error": {"message": said}}), SENT) == field


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"error": {"message": "No.", "param": "temperature"}}, "temperature"),
        ({"error": {"message": "No.", "param": "tools[0].function.parameters"}}, "tools"),
        ({"error": {"message": "No.", "param": "response_format.json_schema"}}, "response_format"),
        ({"detail": [{"loc": ["body", "seed"], "msg": "No.", "type": "x"}]}, "seed"),
        ({"error": {"message": "Bad.", "param": "stop", "code": "unknown_parameter"}}, "stop"),
        # What no request can do without is no field to leave out.
        ({"error": {"message": "Invalid tool_calls.", "param": "messages.[3].tool_calls"}}, ""),
        (
            {
                "error": {
                    "message": "Request contains an invalid argument.",
                    "details": [
                        {"fieldViolations": [{"field": "seed", "description": "not supported"}]}
                    ],
                }
            },
            "seed",
        ),
        ({"detail": [{"loc": ["body", "messages", 0], "msg": "Invalid temperature"}]}, ""),
        ({"error": {"message": "Unknown model, no tools.", "param": "model"}}, ""),
    ],
)
def test_the_field_is_found_beside_the_words(body: object, field: str) -> None:
    assert refused_field(read_words(body), SENT) == field


@pytest.mark.parametrize(
    "said",
    [
        "The temperature of the cluster is high.",
        "Unknown error: we had to stop the server.",
        "Unsupported parameter: 'logprobs'",
        "max_tokens_per_day is invalid",
        "Invalid parameter: messages with role 'tool' must follow a message with 'tool_calls'.",
        "Unsupported model: function-calling-7b",
        "",
    ],
)
def test_no_field_is_taken_for_refused(said: str) -> None:
    assert refused_field(read_words({"error": said}), SENT) == ""


def test_a_field_that_was_not_sent_is_not_refused() -> None:
    words = read_words({"error": "'temperature' is not supported"})
    assert refused_field(words, {"top_p"}) == ""
    words = read_words({"error": '"auto" tool choice requires --enable-auto-tool-choice'})
    assert refused_field(words, {"tools", "stream"}) == "tools"


def bodies(outcome: Outcome) -> list[dict[str, Any]]:
    return outcome.server.bodies


@pytest.mark.parametrize(
    "field",
    ["temperature", "top_p", "reasoning_effort", "stop", "seed", "parallel_tool_calls", "min_p",
     "stream_options"],
)  # fmt: skip
@pytest.mark.parametrize("status", [400, 422, 500])
def test_it_is_left_out_and_asked_again_at_once(field: str, status: int) -> None:
    no = refuses(status, f"Unsupported parameter: '{field}'")
    outcome = call(no, says("Yes."), request=FULL)
    assert outcome.text == "Yes."
    assert [field in body for body in bodies(outcome)] == [True, False]
    first, second = bodies(outcome)
    assert {name: value for name, value in first.items() if name != field} == second
    assert outcome.end.refused == {field}
    assert outcome.waits == []


def test_several_are_left_out_one_after_the_other() -> None:
    refused = ["temperature", "top_p", "stop", "seed"]
    no = [refuses(400, f"Unsupported parameter: '{field}'") for field in refused]
    outcome = call(*no, says("Yes."), request=FULL)
    assert outcome.end.refused == set(refused)
    assert not set(refused) & set(bodies(outcome)[-1])


def test_one_that_is_refused_though_it_is_not_sent_ends_the_call() -> None:
    no = refuses(400, "Unsupported parameter: 'temperature'")
    outcome = call(no, no, says("Yes."), request=FULL)
    assert isinstance(outcome.error, ProviderRefused)
    assert outcome.error.said == "Unsupported parameter: 'temperature'."
    assert len(bodies(outcome)) == 2


def test_the_limit_is_sent_under_its_other_name_and_then_not_at_all() -> None:
    no = [
        refuses(400, f"Unknown field: {name}") for name in ("max_tokens", "max_completion_tokens")
    ]
    outcome = call(*no, says("Yes."), request=REQUEST)
    limits = [{name for name in body if name.startswith("max_")} for body in bodies(outcome)]
    assert limits == [{"max_tokens"}, {"max_completion_tokens"}, set()]
    reasoning = replace(REQUEST, token_parameter="max_completion_tokens")
    assert call(no[1], says("Yes."), request=reasoning).body["max_tokens"] == 50


def test_a_server_that_does_not_stream_is_asked_for_the_whole() -> None:
    no = refuses(400, "Your organization must be verified to stream.", param="stream")
    outcome = call(no, says_at_once("Yes."), request=FULL)
    assert outcome.text == "Yes."
    assert (outcome.body["stream"], "stream_options" in outcome.body) == (False, False)


@pytest.mark.parametrize(
    "answer",
    [
        refuses(400, "maximum context length is 9 tokens: reduce the length or 'max_tokens'"),
        refuses(401, "Invalid key for 'temperature'"),
        refuses(403, "The parameter 'temperature' is not allowed for you"),
        responds(400, {"error": {"code": "content_filter", "message": "Invalid 'stop'"}}),
    ],
)
def test_other_refusals_that_name_a_field_are_none_of_it(answer: Answer) -> None:
    outcome = call(answer, request=FULL)
    assert isinstance(outcome.error, ProviderRefused | ContextOverflow)
    assert len(bodies(outcome)) == 1
