"""Tests of when a server is asked about its models, and of how its reports are stored."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from agents import sweeping, tasks
from agents.calling.asking import ask_server
from agents.calling.consent import grant
from agents.calling.model_access import model_facts
from agents.facts import reported_windows
from agents.facts.reported_windows import read_report, store_reports
from agents.models import ReportedWindow
from agents.providers.tests.model_server import model_server
from agents.providers.windows import WindowReport
from agents.running.work import STOPPING
from agents.tests.declared import CHARACTERS

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
    monkeypatch.setattr("agents.calling.asking.ask_windows", fake.ask_windows)
    return fake


def pass_by(**time: float) -> None:
    ReportedWindow.objects.update(asked_at=timezone.now() - timedelta(**time))


def test_what_it_says_is_what_prompts_are_fitted_to(
    calls_allowed: None, settings: Settings
) -> None:
    entry = {"id": MODEL, "max_model_len": 12_288}
    with model_server({"GET /v1/models": {"data": [entry]}}) as server:
        settings.OPENAI_BASE_URL = server.base_url
        assert model_facts(CHARACTERS[1]).context_window == 8_192
        ask_server()
    assert model_facts(CHARACTERS[1]).context_window == 12_288


class TestWhenItIsAsked:
    def test_one_of_this_machine_needs_no_permission(self, server: FakeServer) -> None:
        ask_server()
        assert server.asked == [[MODEL]]

    def test_another_one_is_not_asked_before_the_gm_allows_it(
        self, server: FakeServer, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL = ELSEWHERE
        ask_server()
        assert server.asked == []
        grant("llm.example")
        ask_server()
        assert server.asked == [[MODEL]]

    def test_another_one_is_not_asked_while_nothing_is_sent(
        self, server: FakeServer, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL = ELSEWHERE
        grant("llm.example")
        ask_server(in_passing=True)
        assert server.asked == []

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
        ask_server()
        pass_by(**soon)
        ask_server()
        assert len(server.asked) == 1
        pass_by(**later)
        ask_server()
        assert len(server.asked) == 2

    def test_without_an_answer_it_is_asked_again(self, server: FakeServer) -> None:
        server.says = {}
        ask_server()
        ask_server(in_passing=True)
        assert len(server.asked) == 2

    def test_of_a_model_at_rest_it_is_asked_again_with_the_next_job(
        self, server: FakeServer
    ) -> None:
        server.says = {MODEL: WindowReport(131_072, is_ceiling=True)}
        ask_server()
        ask_server(in_passing=True)
        assert len(server.asked) == 1
        ask_server()
        pass_by(minutes=2)
        ask_server(in_passing=True)
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
        with django_assert_num_queries(1):
            ask_server()
        assert server.asked == []

    @pytest.mark.django_db(transaction=True)
    def test_no_transaction_is_open_meanwhile(self, server: FakeServer) -> None:
        ask_server()
        assert server.asked
        assert not server.was_in_transaction


class TestWhatIsKept:
    @pytest.fixture(autouse=True)
    def _read_anew(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reported_windows, "_HELD_SECONDS", 0.0)

    def test_how_a_model_runs_is_not_given_up_for_what_it_could_take(self) -> None:
        store_reports({MODEL: WindowReport(4_096)})
        store_reports({MODEL: WindowReport(131_072, is_ceiling=True)})
        assert read_report(MODEL) == WindowReport(4_096)
        store_reports({MODEL: WindowReport(2_048, is_ceiling=True)})
        assert read_report(MODEL) == WindowReport(2_048)

    def test_a_later_answer_replaces_an_earlier_one(self) -> None:
        store_reports({MODEL: WindowReport(4_096)})
        store_reports({MODEL: WindowReport(8_192)})
        assert read_report(MODEL) == WindowReport(8_192)
        store_reports({MODEL: None})
        assert read_report(MODEL) is None

    def test_an_answer_is_one_servers(self, settings: Settings) -> None:
        store_reports({MODEL: WindowReport(4_096)})
        settings.OPENAI_BASE_URL = "http://127.0.0.1:8080/v1"
        assert read_report(MODEL) is None

    def test_neither_a_password_nor_a_long_name_is_in_the_way(self, settings: Settings) -> None:
        settings.OPENAI_BASE_URL = "http://gm:secret@127.0.0.1/v1"
        long_name = "m" * 500
        store_reports({long_name: WindowReport(4_096)})
        assert read_report(long_name) == WindowReport(4_096)
        assert "secret" not in ReportedWindow.objects.get().server


def test_a_prompt_does_not_ask_the_database_each_time(
    django_assert_num_queries: DjangoAssertNumQueries,
) -> None:
    with django_assert_num_queries(1):
        for _ in range(3):
            model_facts(CHARACTERS[1])


class TestWorker:
    @pytest.fixture
    def steps(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        steps: list[str] = []

        def ask(*, in_passing: bool = False) -> None:
            steps.append("ask in passing" if in_passing else "ask")

        monkeypatch.setattr(tasks, "ask_server", ask)
        monkeypatch.setattr(tasks, "work_on", lambda _job_id: steps.append("work"))
        monkeypatch.setattr(sweeping, "ask_server", ask)
        monkeypatch.setattr(sweeping, "give_notice_of_due_jobs", lambda: steps.append("ring"))
        return steps

    def test_it_asks_before_a_job_and_once_the_model_was_called(self, steps: list[str]) -> None:
        tasks.run_job(job_id=str(uuid.uuid4()))
        assert steps == ["ask", "work", "ask"]

    def test_its_sweep_asks_in_passing(self, steps: list[str]) -> None:
        sweeping.sweep()
        assert steps == ["ring", "ask in passing"]

    def test_one_that_is_being_stopped_asks_nothing(self, steps: list[str]) -> None:
        STOPPING.set()
        try:
            tasks.run_job(job_id=str(uuid.uuid4()))
            sweeping.sweep()
        finally:
            STOPPING.clear()
        assert steps == ["work", "ring"]
