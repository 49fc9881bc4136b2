"""Tests of the facts about models, which come from the shipped file, the user's file and the list
of prices."""

import re
from decimal import Decimal
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from agents.calling.model_access import model_of
from agents.calling.prepared_calls import prepare_call
from agents.llm.facts.model_facts import (
    CapabilityFileError,
    facts_of,
    read_default,
    read_known_models,
)
from agents.prompting.budget import output_limit
from agents.prompting.declarations import NARRATOR
from agents.prompting.layers import text_layer
from agents.tests.declared import AGENTS
from sessions.tests.factories import make_active_chapter


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
    ("model", "takes_one"),
    [
        ("claude-3-haiku-20240307", True),
        ("claude-opus-4", True),
        ("anthropic/claude-4-sonnet", True),
        ("claude-sonnet-4-6", True),
        ("claude-opus-4-7", False),
        ("anthropic/claude-4.7-opus", False),
        ("claude-sonnet-5", False),
        ("claude-of-a-later-day", False),
        ("gpt-5-chat-latest", True),
        ("gpt-5.3-chat-latest", False),
        ("gpt-4o-mini", True),
        ("gpt-4o-mini-search-preview", False),
        ("gemini-2.5-pro", True),
        ("google/gemini-3.6-flash", False),
        ("kimi-k3", False),
    ],
)
def test_who_takes_a_temperature(model: str, *, takes_one: bool) -> None:
    facts = facts_of(model)
    assert (facts.accepts_temperature, facts.is_known) == (takes_one, True)


@pytest.mark.parametrize(
    ("model", "takes_effort", "takes_tools"),
    [
        ("o4-mini", True, True),
        ("o1-mini", False, False),
        ("gpt-5-pro", False, True),
        ("gpt-5.2", True, False),
        ("gpt-5.6-sol", True, False),
        ("gpt-4o", False, True),
        ("claude-sonnet-5", False, True),
        ("gemini-3.5-flash", True, False),
        ("deepseek-v4-pro", False, False),
        ("gpt-oss:20b", True, True),
        ("embedded:qwen2.5-coder-1.5b", False, False),
        ("a-model-nobody-knows", False, False),
    ],
)
def test_who_takes_a_reasoning_effort_and_who_tools(
    model: str, *, takes_effort: bool, takes_tools: bool
) -> None:
    facts = facts_of(model)
    assert (facts.reasoning_effort, facts.tools) == (takes_effort, takes_tools)


@pytest.mark.django_db
@pytest.mark.parametrize(("model", "sent"), [("o4-mini", "low"), ("gpt-4o", "")])
def test_all_agents_but_the_narrator_ask_for_a_low_effort_where_it_is_taken(
    settings: Any, model: str, sent: str
) -> None:
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", model, {}
    settings.OPENAI_BASE_URL = "http://localhost:9/v1"
    chapter, layer = make_active_chapter(), text_layer("USER_PROMPT", "Go on.")
    for agent in AGENTS.values():
        call = prepare_call(model_of(agent), chapter.pk, lambda: [layer])
        assert call.request.reasoning_effort == ("" if agent is NARRATOR else sent)


@pytest.mark.parametrize(
    "model",
    [
        "claude-sonnet-5",
        "gpt-5",
        "gemini-2.5-flash",
        "grok-3-mini",
        "deepseek-v3.2",
        "deepseek-r1:8b",
        "magistral:24b",
        "qwen3:14b",
        "qwq:32b",
        "glm-5.3",
        "gemma4:12b",
    ],
)
def test_a_model_that_thinks_has_room_for_it_beside_a_scene(model: str) -> None:
    facts = facts_of(model)
    assert facts.reasons
    assert output_limit(NARRATOR, facts) > NARRATOR.reasoning_tokens


@pytest.mark.parametrize(
    ("model", "takes_one"),
    [
        ("llama3.1:8b", True),
        ("gemma3:4b", True),
        ("mistral:latest", True),
        ("qwen3:14b", False),
        ("meta-llama/llama-3.1-8b-instruct:free", False),
        ("google/gemma-3-27b-it:free", False),
        ("microsoft/Phi-4", False),
    ],
)
def test_open_weights_take_a_schema_where_their_server_is_known(
    model: str, *, takes_one: bool
) -> None:
    facts = facts_of(model)
    assert (facts.json_schema, facts.is_known) == (takes_one, True)


def test_every_entry_of_the_shipped_file_can_be_reached() -> None:
    """Each entry must match a name that no earlier entry matches, because otherwise the entry would
    never be used."""
    patterns = [pattern for pattern, _ in read_known_models("")]
    assert len(set(patterns)) == len(patterns)
    for number, pattern in enumerate(patterns):
        example = pattern.replace("*", "").replace("[!7-9]", "5").replace("[-.]", "-")
        example = re.sub(r"\[(.)[^]]*\]", r"\1", example)
        taken = next(n for n, each in enumerate(patterns) if fnmatchcase(example, each))
        assert taken == number, f"{patterns[taken]} takes {example}"


def test_a_file_of_ones_own_comes_first(own_file: Path) -> None:
    own_file.write_text('[[model]]\npattern = "gpt-4o"\ncontext_window = 4000\ninput_price = 1.5\n')
    facts = facts_of("openai/gpt-4o")
    assert (facts.context_window, facts.input_price) == (4_000, Decimal("1.5"))
    assert facts.max_output == read_default().max_output
    assert facts_of("gpt-4o-mini").context_window == 128_000


def test_only_a_window_of_ones_own_file_was_told(own_file: Path) -> None:
    own_file.write_text(
        '[[model]]\npattern = "gpt-4o"\ncontext_window = 4000\n'
        '[[model]]\npattern = "o4-mini"\ntier = "full"\n'
    )
    told = {model: facts_of(model).is_window_told for model in ("gpt-4o", "o4-mini", "gpt-5.2")}
    assert told == {"gpt-4o": True, "o4-mini": False, "gpt-5.2": False}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[model]", "cannot be read"),
        ('[[model]]\npattern = "mine"\ncontext_window = 0\n', "mine: context_window"),
        ('[[model]]\npattern = "mine"\ntier = "huge"\n', "mine: tier"),
        ('[[model]]\npattern = "mine"\njson_reliability = "good"\n', "mine: json_reliability"),
        ('[[model]]\npattern = ["mine", "ours"]\ntier = "huge"\n', "mine, ours: tier"),
        ("[[model]]\ncontext_window = 9\n", "an entry's pattern"),
        ('[[model]]\npattern = ["mine", 7]\n', "an entry's pattern"),
    ],
)
def test_a_bad_file_is_refused_with_the_place(own_file: Path, text: str, problem: str) -> None:
    own_file.write_text(text)
    with pytest.raises(CapabilityFileError, match=problem):
        read_known_models(str(own_file))
