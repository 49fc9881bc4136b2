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
    ("model", "window", "tier"),
    [
        ("gpt-4o", 128_000, "full"),
        ("gpt-4o-mini", 128_000, "full"),
        ("claude-sonnet-4", 200_000, "full"),
        ("claude-opus-4", 200_000, "full"),
        ("gemini-2.0-flash", 1_000_000, "full"),
        ("grok-2", 131_072, "full"),
        ("deepseek-chat", 64_000, "medium"),
        ("qwen-plus", 131_072, "medium"),
        ("qwen-max", 32_768, "medium"),
        ("mistral-large", 128_000, "full"),
        ("llama3.2:3b", 8_192, "minimal"),
        ("mistral:7b", 32_768, "medium"),
    ],
)
def test_the_models_that_the_engine_was_designed_for(model: str, window: int, tier: str) -> None:
    facts = facts_of(model)
    assert (facts.context_window, facts.tier, facts.is_known) == (window, tier, True)


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
