"""What the pages say of the models that the agents run on."""

import pytest
from pytest_django import Settings

from agents.model_access import provider_label
from agents.models import EmbeddedServer

QWEN = "qwen2.5-coder-1.5b"


@pytest.fixture
def hosted(settings: Settings) -> Settings:
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    return settings


class TestProviderLabel:
    def test_a_hosted_model_is_named_with_its_host(self, hosted: Settings) -> None:
        hosted.MODEL = "o4-mini"
        assert provider_label() == "o4-mini at api.openai.com"

    def test_a_second_model_is_named_too(self, hosted: Settings) -> None:
        assert provider_label() == "o4-mini and gpt-5.2 at api.openai.com"

    def test_many_models_are_counted(self, hosted: Settings) -> None:
        hosted.MODEL_BY_AGENT = {agent_id: f"model-{agent_id}" for agent_id in range(10)}
        assert provider_label() == "10 models at api.openai.com"

    def test_a_server_of_this_machine_is_called_so(self, hosted: Settings) -> None:
        hosted.MODEL, hosted.OPENAI_BASE_URL = "llama3", "http://127.0.0.1:11434/v1"
        assert provider_label() == "llama3 on this machine"


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
