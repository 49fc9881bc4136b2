"""Tests of the search for servers of models on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_django import Settings

from agents.calling import offered_models
from agents.calling.offered_models import find_servers
from agents.calling.servers.addresses import Preset
from agents.calling.servers.changing import add_server, remove_server
from agents.calling.servers.keys import paste_key
from agents.llm.providers.tests.model_server import ModelServer, model_server

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("calls_allowed")]

LIST = {"GET /v1/models": {"data": [{"id": "small"}, {"id": "large"}]}}


@pytest.fixture(autouse=True)
def _data(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path
    settings.CELERY_BROKER_URL = "filesystem://localhost"
    settings.OPENAI_API_KEY = "sk-of-the-environment"


@pytest.fixture
def running() -> Iterator[ModelServer]:
    with model_server(LIST) as server:
        yield server


def search(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> list[tuple[str, tuple[str, ...]]]:
    presets = tuple(Preset(f"s{n}", f"S{n}", one) for n, one in enumerate(addresses))
    monkeypatch.setattr(offered_models, "PRESETS", presets)
    return [(one.preset.address, one.models) for one in find_servers()]


def test_each_is_asked_once_without_a_key_and_no_other_host_is(
    running: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A key that was pasted for the very address stays in its file.
    paste_key(add_server("Mine", running.base_url), "sk-of-the-test")
    remove_server("mine")
    with model_server({"GET /v1/models": 500}) as broken:
        far = f"http://localhost:{running.port}/v1"
        found = search(monkeypatch, running.base_url, broken.base_url, far)
    assert found == [(running.base_url, ("large", "small"))]
    assert [(one.route, one.key) for one in running.questions] == [("GET /v1/models", "")]
    assert broken.asked == ["GET /v1/models"]


def test_neither_a_known_server_nor_this_program_is_asked(
    running: ModelServer, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with model_server(LIST) as other:
        add_server("Mine", running.base_url)
        settings.PORT = other.port
        assert search(monkeypatch, running.base_url, other.base_url) == []
        assert running.asked == other.asked == []


def test_one_that_does_not_answer_is_not_waited_for(
    running: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offered_models, "_SECONDS_TO_FIND", 0.5)
    # The silent server answers only once this block has ended.
    with model_server({"GET /v1/models": None}) as silent:
        assert search(monkeypatch, silent.base_url) == []
        assert silent.asked == ["GET /v1/models"]
