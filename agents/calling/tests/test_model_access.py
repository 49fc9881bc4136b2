"""Tests of the names, windows and limits that the engine knows of its agents' models."""

from collections.abc import Callable
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling import model_access
from agents.calling.model_access import (
    model_of,
    provider_label,
    unknown_models,
)
from agents.flows.beginning.locking import request_lock
from agents.flows.tests.playing import play
from agents.llm.facts.model_facts import facts_of
from agents.llm.facts.reported_windows import store_reports
from agents.llm.providers.scripted import ScriptedProvider
from agents.llm.providers.windows import WindowReport
from agents.models import EmbeddedServer, LLMArtifact, TokenCalibration
from agents.tests.declared import CHARACTERS
from agents.tests.replies import answer_in_form
from sessions.tests.factories import make_active_chapter, make_chapter

QWEN = "qwen2.5-coder-1.5b"
UNKNOWN = "a-model-nobody-knows"
LISTED = "cohere/command-r-plus-08-2024"
OPEN = "qwen/qwen3-14b"
OPENROUTER = "https://openrouter.ai/api/v1"
HERE = "http://127.0.0.1:11434/v1"


@pytest.fixture
def hosted(settings: Settings) -> Settings:
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    return settings


@pytest.mark.django_db
class TestEmbeddedLabel:
    @pytest.mark.parametrize(
        ("asked", "label"),
        [
            (QWEN, "Qwen2.5-Coder 1.5B on this machine"),
            ("/models/Mine.gguf", "Mine.gguf on this machine"),
        ],
    )
    def test_before_it_runs_the_chosen_one_is_named(
        self, settings: Settings, asked: str, label: str
    ) -> None:
        settings.LLM, settings.EMBEDDED_MODEL = "embedded", asked
        assert provider_label() == label

    def test_what_runs_instead_is_named(self, settings: Settings) -> None:
        settings.LLM, settings.EMBEDDED_MODEL = "embedded", QWEN
        EmbeddedServer.objects.create(phase="ready", model="smollm2-135m")
        assert provider_label() == "SmolLM2 135M on this machine"


@pytest.mark.django_db
class TestStandIn:
    """Tests in which the small model answers, because the chosen model could not be fetched."""

    @pytest.fixture(autouse=True)
    def _stand_in(self, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.LLM, settings.EMBEDDED_MODEL = "embedded", QWEN
        EmbeddedServer.objects.create(
            phase="ready", model="smollm2-135m", base_url="http://here", context_window=8192
        )
        scripted = ScriptedProvider(fallback=answer_in_form)
        monkeypatch.setattr(model_access, "_embedded_provider", lambda _address: scripted)

    def test_a_reply_is_recorded_under_its_name(self) -> None:
        play(make_active_chapter())
        assert {one.model for one in LLMArtifact.objects.all()} == {"embedded:smollm2-135m"}

    def test_a_job_is_recorded_and_calibrated_under_its_name(
        self, run_jobs: Callable[[], int]
    ) -> None:
        request_lock(make_chapter().pk)
        run_jobs()
        assert LLMArtifact.objects.get().model == "embedded:smollm2-135m"
        assert TokenCalibration.objects.get().model == "embedded:smollm2-135m"


@pytest.mark.django_db
class TestWindow:
    """Tests of the source from which the window of a model is taken.

    The sources are the capability file, the user's setting, the server's report, the list of models
    and a default.
    """

    @pytest.mark.parametrize(
        ("model", "base_url", "setting", "report", "window", "is_told"),
        [
            (UNKNOWN, HERE, 0, None, 8_192, False),
            (UNKNOWN, HERE, 0, WindowReport(40_960), 40_960, True),
            (UNKNOWN, HERE, 0, WindowReport(2_048), 2_048, True),
            (UNKNOWN, HERE, 16_000, WindowReport(40_960), 16_000, True),
            (LISTED, OPENROUTER, 0, None, 128_000, False),
            (LISTED, OPENROUTER, 0, WindowReport(40_960), 40_960, True),
            (UNKNOWN, HERE, 0, WindowReport(131_072, is_ceiling=True), 8_192, False),
            (UNKNOWN, HERE, 0, WindowReport(2_048, is_ceiling=True), 2_048, True),
            ("gpt-4o", OPENROUTER, 0, WindowReport(4_096), 128_000, False),
            # The report of a server on this machine counts, because the server may run the model
            # with a smaller window than the model can take.
            ("gpt-4o", HERE, 0, WindowReport(4_096), 4_096, True),
            ("gpt-4o", HERE, 0, WindowReport(999_999), 128_000, False),
            # For a model with open weights the server's report counts, because the server decides
            # about the window.
            (OPEN, OPENROUTER, 0, None, 32_768, False),
            (OPEN, OPENROUTER, 0, WindowReport(16_384), 16_384, True),
            (OPEN, OPENROUTER, 0, WindowReport(40_960), 40_960, True),
            (OPEN, OPENROUTER, 0, WindowReport(131_072, is_ceiling=True), 32_768, False),
            (OPEN, OPENROUTER, 8_192, WindowReport(40_960), 8_192, True),
        ],
    )
    def test_whose_word_counts(
        self,
        hosted: Settings,
        model: str,
        base_url: str,
        setting: int,
        report: WindowReport | None,
        window: int,
        is_told: bool,
    ) -> None:
        hosted.MODEL, hosted.OPENAI_BASE_URL, hosted.CONTEXT_WINDOW = model, base_url, setting
        store_reports(hosted.OPENAI_BASE_URL, {model: report})
        facts = model_of(CHARACTERS[1]).when_ready().facts
        assert (facts.context_window, facts.is_window_told) == (window, is_told)
        assert facts.max_output == facts_of(model).max_output


@pytest.mark.django_db
class TestUnknownModels:
    @pytest.mark.parametrize(
        ("changes", "report", "sources"),
        [
            ({}, None, ("a cautious default", "a cautious default")),
            (
                {"CONTEXT_WINDOW": 16_000, "MAX_OUTPUT": 900},
                WindowReport(4_096),
                ("as you have set it", "as you have set it"),
            ),
            ({}, WindowReport(4_096), ("as its server reports", "a cautious default")),
            (
                {"MODEL": LISTED, "OPENAI_BASE_URL": OPENROUTER},
                None,
                ("from a list of models", "a cautious default"),
            ),
            (
                {},
                WindowReport(131_072, is_ceiling=True),
                ("a cautious default", "a cautious default"),
            ),
        ],
    )
    def test_it_is_said_what_they_are_taken_for_and_why(
        self,
        hosted: Settings,
        changes: dict[str, Any],
        report: WindowReport | None,
        sources: tuple[str, str],
    ) -> None:
        hosted.MODEL, hosted.OPENAI_BASE_URL = UNKNOWN, HERE
        for name, value in changes.items():
            setattr(hosted, name, value)
        store_reports(hosted.OPENAI_BASE_URL, {hosted.MODEL: report})
        [models] = unknown_models()
        facts = model_of(CHARACTERS[1]).when_ready().facts
        assert models.named == hosted.MODEL
        assert (models.context_window, models.max_output) == (
            facts.context_window,
            facts.max_output,
        )
        assert (models.window_source, models.output_source) == sources
