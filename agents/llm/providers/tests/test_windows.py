"""Tests of how each kind of server reports the context windows of its models, and of reports that
make no sense."""

import asyncio
from typing import Any

import pytest

from agents.llm.providers import windows
from agents.llm.providers.tests.model_server import ModelServer, Routes, model_server
from agents.llm.providers.windows import WindowReport, address_of, ask_windows
from agents.tests.calling import KEY, SHORT

pytestmark = pytest.mark.usefixtures("calls_allowed")

MODEL = "qwen9:70b"


def ask(server: ModelServer, *models: str, **options: float) -> dict[str, WindowReport | None]:
    return asyncio.run(ask_windows(server.base_url, KEY, models or (MODEL,), **options))


def answer_of(routes: Routes, model: str = MODEL) -> WindowReport | None:
    with model_server(routes) as server:
        return ask(server, model)[model]


def listed(**fields: Any) -> Routes:
    others = {"id": "another", "context_length": 999_999, "max_model_len": 999_999}
    return {"GET /v1/models": {"object": "list", "data": [others, {"id": MODEL, **fields}]}}


def ollama(*, loaded: int = 0, parameters: str = "") -> Routes:
    info = {"general.architecture": "qwen9", "qwen9.context_length": 131_072}
    running = [{"name": MODEL, "context_length": loaded}] if loaded else []
    return {
        "GET /v1/models": {"data": [{"id": MODEL, "owned_by": "library"}]},
        "POST /api/show": {"model_info": info, "parameters": parameters},
        "GET /api/ps": {"models": [{"name": "other", "context_length": 2_048}, *running]},
    }


def lm_studio(**fields: int) -> Routes:
    """Return the routes of LM Studio.

    LM Studio answers a question that it does not know with an error under status 200.
    """
    unknown = {"error": "Unexpected endpoint or method."}
    return {
        "GET /v1/models": {"data": [{"id": MODEL}]},
        "GET /props": unknown,
        "POST /api/show": unknown,
        "GET /api/v0/models": {"data": [{"id": MODEL, "max_context_length": 32_768, **fields}]},
    }


class TestServers:
    @pytest.mark.parametrize(
        ("fields", "window"),
        [
            ({"max_model_len": 16_384, "owned_by": "vllm"}, 16_384),
            ({"context_length": 262_144}, 262_144),
            ({"context_length": 262_144, "top_provider": {"context_length": 65_536}}, 65_536),
            ({"context_length": 262_144, "top_provider": {"context_length": None}}, 262_144),
            ({"context_window": 131_072}, 131_072),
        ],
        ids=["vLLM", "OpenRouter", "OpenRouter's provider", "no provider", "Groq"],
    )
    def test_a_list_of_models_tells(self, fields: dict[str, Any], window: int) -> None:
        assert answer_of(listed(**fields)) == WindowReport(window)

    def test_llama_cpp_tells_what_a_slot_has(self) -> None:
        routes = {
            "GET /v1/models": {"data": [{"id": "x.gguf", "meta": {"n_ctx_train": 131_072}}]},
            "GET /props": {"default_generation_settings": {"n_ctx": 8_192}, "total_slots": 2},
            "POST /api/show": {"model_info": {"llama.context_length": 131_072}},
        }
        with model_server(routes) as server:
            assert ask(server) == {MODEL: WindowReport(8_192)}
        # This query makes llama.cpp answer without loading the model.
        assert server.questions[-1].query == "model=qwen9%3A70b&autoload=false"

    def test_ollama_tells_what_a_running_model_was_given(self) -> None:
        assert answer_of(ollama(loaded=4_096, parameters="num_ctx 8192")) == WindowReport(4_096)

    def test_of_a_model_at_rest_ollama_tells_only_what_it_could_take(self) -> None:
        assert answer_of(ollama()) == WindowReport(131_072, is_ceiling=True)

    def test_ollamas_running_models_have_a_tag(self) -> None:
        routes = {
            "POST /api/show": {"model_info": {}},
            "GET /api/ps": {"models": [{"name": "qwen9:latest", "context_length": 4_096}]},
        }
        assert answer_of(routes, "qwen9") == WindowReport(4_096)

    def test_lm_studio_tells_what_a_loaded_model_was_given(self) -> None:
        assert answer_of(lm_studio(loaded_context_length=4_096)) == WindowReport(4_096)


class TestQuestions:
    def test_only_names_of_models_and_the_key_are_sent(self) -> None:
        with model_server({}) as server:
            ask(server)
        assert {question.key for question in server.questions} == {f"Bearer {KEY}"}
        assert [question.body for question in server.questions if question.body] == [
            b'{"model":"qwen9:70b"}'
        ]

    def test_a_redirect_is_not_followed(self) -> None:
        elsewhere = {"data": [{"id": MODEL, "context_length": 4_096}]}
        routes = {"GET /v1/models": 302, "GET /elsewhere": elsewhere}
        with model_server(routes) as server:
            assert ask(server) == {MODEL: None}
        assert "GET /elsewhere" not in server.asked

    def test_an_address_is_kept_without_its_password(self) -> None:
        assert address_of("http://gm:secret@llm.example:8080/v1") == "http://llm.example:8080/v1"
        assert address_of("http://a:b:c") == ""


class TestNonsense:
    @pytest.mark.parametrize(
        "answer",
        [
            b"",
            b"<html>",
            b"\xff\xfe{}",
            b"[" * 100_000,
            b"9" * 5_000,
            b"[" + b'{"":0},' * 110_000 + b"0]",
            [],
            {"data": None},
            {"data": [None, 7, "x", [], {"id": None}]},
            {"data": {"id": MODEL}},
        ],
    )
    @pytest.mark.parametrize("route", ["GET /v1/models", "GET /props", "GET /api/v0/models"])
    def test_an_answer_of_another_form_says_nothing(self, route: str, answer: object) -> None:
        assert answer_of({route: answer}) is None

    @pytest.mark.parametrize(
        "window", [0, -1, True, "4096", None, [], {}, 1e308, 10**30, 100, float("nan"), 1e999]
    )
    def test_a_window_that_cannot_be_says_nothing(self, window: object) -> None:
        assert answer_of(listed(context_length=window)) is None
        assert answer_of({"GET /props": {"default_generation_settings": {"n_ctx": window}}}) is None

    def test_an_answer_without_end_is_not_read_to_its_end(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(windows, "LARGEST_ANSWER", 1_000)
        assert answer_of(listed(context_length=4_096, description="x" * 1_000)) is None
        assert answer_of(listed(context_length=4_096)) == WindowReport(4_096)


class TestNoAnswer:
    """A server that gives no answer must be asked again, so the result has no entry for the
    model."""

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_server_that_has_no_time(self, status: int) -> None:
        with model_server({"GET /props": status}) as server:
            assert ask(server) == {}

    def test_a_server_that_falls_silent(self) -> None:
        with model_server({**listed(), "POST /api/show": None}) as server:
            assert ask(server, seconds=SHORT) == {}

    def test_what_was_said_before_is_kept(self) -> None:
        routes = {**listed(context_length=4_096), "GET /props": None}
        with model_server(routes) as server:
            assert ask(server, MODEL, "b", seconds=3.0) == {MODEL: WindowReport(4_096)}
