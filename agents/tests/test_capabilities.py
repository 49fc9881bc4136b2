"""What is known of models: the shipped file, a file of the user's own, the listed ones."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from agents.capabilities import CapabilityFileError, facts_of, read_default, read_known_models

OPENROUTER = "https://openrouter.ai/api/v1"


@pytest.fixture
def own_file(tmp_path: Path, settings: Any) -> Path:
    file = tmp_path / "models.toml"
    settings.MODELS_FILE = str(file)
    return file


@pytest.mark.parametrize(
    ("model", "window", "tier", "xml"),
    [
        ("gpt-4o", 128_000, "full", "high"),
        ("gpt-4o-mini", 128_000, "full", "high"),
        ("claude-sonnet-4", 200_000, "full", "very_high"),
        ("claude-opus-4", 200_000, "full", "very_high"),
        ("gemini-2.0-flash", 1_000_000, "full", "medium"),
        ("grok-2", 131_072, "full", "high"),
        ("deepseek-chat", 64_000, "medium", "medium"),
        ("qwen-plus", 131_072, "medium", "medium"),
        ("qwen-max", 32_768, "medium", "medium"),
        ("mistral-large", 128_000, "full", "high"),
        ("llama3.2:3b", 8_192, "minimal", "low"),
        ("mistral:7b", 32_768, "medium", "medium"),
    ],
)
def test_the_models_that_the_engine_was_designed_for(
    model: str, window: int, tier: str, xml: str
) -> None:
    facts = facts_of(model)
    assert (facts.context_window, facts.tier, facts.xml_reliability) == (window, tier, xml)
    assert facts.is_known


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("openai/gpt-6-sol", 1_000_000),
        ("gpt-5.3", 128_000),
        ("gpt-5.3-codex", 400_000),
        ("claude-opus-5-5", 200_000),
        ("gemini-3.5-flash", 1_000_000),
        ("x-ai/grok-4.5", 256_000),
        ("deepseek-v4-pro", 1_000_000),
        ("qwen/qwen3.7-max", 262_144),
        ("mistral-large-4", 128_000),
        ("ministral-8b-2512", 131_072),
        ("openai/gpt-oss-120b", 131_072),
    ],
)
def test_later_models_have_the_least_of_their_family(model: str, window: int) -> None:
    facts = facts_of(model)
    assert (facts.context_window, facts.is_known) == (window, True)


def test_an_unknown_model_is_trusted_with_neither_form() -> None:
    facts = facts_of("anything")
    assert (facts.json_schema, facts.json_reliability, facts.xml_reliability) == (
        False,
        "medium",
        "medium",
    )
    assert (facts.tools, facts.streaming) == (False, True)


def test_a_file_of_ones_own_comes_first(own_file: Path) -> None:
    own_file.write_text('[[model]]\npattern = "gpt-4o"\ncontext_window = 4000\ninput_price = 1.5\n')
    facts = facts_of("openai/gpt-4o")
    assert (facts.context_window, facts.input_price) == (4_000, Decimal("1.5"))
    assert facts.max_output == read_default().max_output
    assert facts_of("gpt-4o-mini").context_window == 128_000


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[model]", "cannot be read"),
        ('[[model]]\npattern = "mine"\ncontext_window = 0\n', "mine: context_window"),
        ('[[model]]\npattern = "mine"\ntier = "huge"\n', "mine: tier"),
        ('[[model]]\npattern = "mine"\nwindow = 9\n', "mine: window"),
        ('[[model]]\npattern = "mine"\njson_reliability = "good"\n', "mine: json_reliability"),
        ('[[model]]\npattern = "mine"\ntools = "some"\n', "mine: tools"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(own_file: Path, text: str, problem: str) -> None:
    own_file.write_text(text)
    with pytest.raises(CapabilityFileError, match=problem):
        read_known_models(str(own_file))


def test_a_file_that_is_missing_is_refused(own_file: Path) -> None:
    with pytest.raises(CapabilityFileError, match=r"models\.toml cannot be read"):
        read_known_models(str(own_file))


def test_an_unknown_model_has_the_window_that_is_listed_for_its_server(settings: Any) -> None:
    settings.OPENAI_BASE_URL = OPENROUTER
    facts = facts_of("cohere/command-r-plus-08-2024")
    assert not facts.is_known
    assert facts.context_window == 128_000
    settings.OPENAI_BASE_URL = "http://localhost:11434/v1"
    assert facts_of("cohere/command-r-plus-08-2024") == facts_of("anything")


def test_the_environment_knows_an_unknown_model_better(settings: Any) -> None:
    settings.OPENAI_BASE_URL = OPENROUTER
    settings.CONTEXT_WINDOW = 16_000
    assert facts_of("cohere/command-r-plus-08-2024").context_window == 16_000
