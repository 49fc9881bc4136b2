"""Tests of when a server is asked about its models, and of how its reports are stored."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from agents.calling.asking_windows import ask_servers
from agents.calling.consent import grant
from agents.calling.model_access import model_of
from agents.calling.servers.changing import add_server, choose_models
from agents.calling.servers.keys import paste_key
from agents.llm.facts import reported_windows
from agents.llm.facts.reported_windows import read_report, store_reports
from agents.llm.providers.windows import WindowReport
from agents.models import ReportedWindow
from agents.prompting.declarations import NARRATOR

pytestmark = pytest.mark.django_db

HERE, ELSEWHERE = "http://127.0.0.1:11434/v1", "https://llm.example/v1"
MODEL = "a-model-nobody-knows"


@pytest.fixture(autouse=True)
def unknown_model(settings: Settings) -> None:
    settings.LLM = "openai"
    settings.OPENAI_BASE_URL = HERE
    settings.MODEL = MODEL


class FakeServer:
    """A stand-in for a server. It gives fixed reports, and records about which models it is
    asked."""

    def __init__(self) -> None:
        self.says: dict[str, WindowReport | None] = {MODEL: WindowReport(16_384)}
        self.asked: list[list[str]] = []
        self.was_in_transaction = False

    async def ask_windows(
        self, base_url: str, api_key: str, models: list[str]
    ) -> dict[str, WindowReport | None]:
        self.asked.append(models)
        self.was_in_transaction |= connection.in_atomic_block
        return self.says


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> FakeServer:
    fake = FakeServer()
    monkeypatch.setattr("agents.calling.asking_windows.ask_windows", fake.ask_windows)
    return fake


def pass_by(**time: float) -> None:
    ReportedWindow.objects.update(asked_at=timezone.now() - timedelta(**time))


class TestWhenItIsAsked:
    def test_one_of_this_machine_needs_no_permission(self, server: FakeServer) -> None:
        ask_servers()
        assert server.asked == [[MODEL]]

    def test_another_one_is_not_asked_before_the_gm_allows_it(
        self, server: FakeServer, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL = ELSEWHERE
        ask_servers()
        assert server.asked == []
        grant("llm.example")
        ask_servers()
        assert server.asked == [[MODEL]]

    @pytest.mark.parametrize(
        ("base_url", "soon", "later"),
        [(HERE, {"minutes": 9}, {"minutes": 11}), (ELSEWHERE, {"hours": 23}, {"hours": 25})],
    )
    @pytest.mark.parametrize("report", [WindowReport(16_384), None])
    def test_an_answer_holds_for_a_while(
        self,
        server: FakeServer,
        settings: Settings,
        base_url: str,
        soon: dict[str, float],
        later: dict[str, float],
        report: WindowReport | None,
    ) -> None:
        settings.OPENAI_BASE_URL = base_url
        if base_url == ELSEWHERE:
            grant("llm.example")
        server.says = {MODEL: report}
        ask_servers()
        pass_by(**soon)
        ask_servers()
        assert len(server.asked) == 1
        pass_by(**later)
        ask_servers()
        assert len(server.asked) == 2

    def test_of_a_model_at_rest_it_is_asked_again_with_the_next_job(
        self, server: FakeServer
    ) -> None:
        server.says = {MODEL: WindowReport(131_072, is_ceiling=True)}
        ask_servers()
        ask_servers(in_passing=True)
        assert len(server.asked) == 1
        ask_servers()
        pass_by(minutes=2)
        ask_servers(in_passing=True)
        assert len(server.asked) == 3

    @pytest.mark.parametrize(
        "changes",
        [
            {"CONTEXT_WINDOW": 4_096},
            {"MODEL": "gpt-4o", "OPENAI_BASE_URL": "https://api.openai.com/v1"},
            {"LLM": "embedded"},
        ],
    )
    def test_it_is_not_asked_what_is_known_without_it(
        self,
        server: FakeServer,
        settings: Settings,
        changes: dict[str, Any],
        django_assert_num_queries: DjangoAssertNumQueries,
    ) -> None:
        for name, value in changes.items():
            setattr(settings, name, value)
        # One query reads the choices, and one the models that chapters have set.
        with django_assert_num_queries(2):
            ask_servers()
        assert server.asked == []

    @pytest.mark.django_db(transaction=True)
    def test_no_transaction_is_open_meanwhile(self, server: FakeServer) -> None:
        ask_servers()
        assert server.asked
        assert not server.was_in_transaction


class TestServersOfTheUser:
    """Each server is asked about the models for which it was chosen."""

    @pytest.fixture(autouse=True)
    def _data(self, settings: Settings, tmp_path: Path) -> None:
        settings.DATA_FOLDER, settings.SERVER_KEYS = tmp_path, {}
        settings.CELERY_BROKER_URL = "filesystem://localhost"

    @pytest.fixture
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, list[str]]]:
        asked = []

        async def ask(address: str, key: str, models: list[str]) -> dict[str, WindowReport | None]:
            asked.append((address, key, models))
            return {model: WindowReport(20_480) for model in models}

        monkeypatch.setattr("agents.calling.asking_windows.ask_windows", ask)
        return asked

    def test_each_is_asked_with_its_own_key_about_its_own_models(
        self, asked: list[tuple[str, str, list[str]]]
    ) -> None:
        mine = add_server("Mine", "http://127.0.0.1:1/v1")
        paste_key(mine, "sk-of-mine")
        choose_models({"AGENT_9": ("mine", "unknown-9"), "AGENT_8": ("mine", "unknown-8")})
        ask_servers()
        assert sorted(asked) == [
            (mine.address, "sk-of-mine", ["unknown-8", "unknown-9"]),
            (HERE, "", [MODEL]),
        ]
        assert model_of(NARRATOR).when_ready().facts.context_window == 20_480
        ask_servers()
        assert len(asked) == 2

    def test_a_host_is_asked_nothing_before_it_is_allowed_and_nothing_in_passing(
        self, asked: list[tuple[str, str, list[str]]]
    ) -> None:
        add_server("Mine", "https://models.example/v1")
        choose_models({"": ("mine", "unknown")})
        ask_servers()
        grant("models.example")
        ask_servers(in_passing=True)
        assert asked == []
        ask_servers()
        assert [address for address, _, _ in asked] == ["https://models.example/v1"]

    def test_one_that_hangs_keeps_no_other_waiting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answered = asyncio.Event()

        async def ask(address: str, _key: str, models: list[str]) -> dict[str, WindowReport | None]:
            if address == HERE:
                await answered.wait()
                return {}
            answered.set()
            return dict.fromkeys(models, WindowReport(20_480))

        monkeypatch.setattr("agents.calling.asking_windows.ask_windows", ask)
        add_server("Mine", "http://127.0.0.1:1/v1")
        choose_models({"AGENT_9": ("mine", "unknown-9")})
        ask_servers()
        assert model_of(NARRATOR).when_ready().facts.context_window == 20_480


class TestWhatIsKept:
    @pytest.fixture(autouse=True)
    def _read_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reported_windows, "_HELD_SECONDS", 0.0)

    def test_how_a_model_runs_is_not_given_up_for_what_it_could_take(self) -> None:
        store_reports(HERE, {MODEL: WindowReport(4_096)})
        store_reports(HERE, {MODEL: WindowReport(131_072, is_ceiling=True)})
        assert read_report(HERE, MODEL) == WindowReport(4_096)
        store_reports(HERE, {MODEL: WindowReport(2_048, is_ceiling=True)})
        assert read_report(HERE, MODEL) == WindowReport(2_048)

    def test_an_answer_is_one_servers(self) -> None:
        store_reports(HERE, {MODEL: WindowReport(4_096)})
        assert read_report("http://127.0.0.1:8080/v1", MODEL) is None

    def test_neither_a_password_nor_a_long_name_is_in_the_way(self, settings: Settings) -> None:
        settings.OPENAI_BASE_URL = "http://gm:secret@127.0.0.1/v1"
        long_name = "m" * 500
        store_reports(settings.OPENAI_BASE_URL, {long_name: WindowReport(4_096)})
        assert read_report(settings.OPENAI_BASE_URL, long_name) == WindowReport(4_096)
        assert "secret" not in ReportedWindow.objects.get().server
