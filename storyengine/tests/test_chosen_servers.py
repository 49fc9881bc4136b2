"""Tests that no choice of a server passes a cap in dollars, and that a key stays where it is."""

import json
import logging
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from django.apps import apps
from django.core.serializers import serialize
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.calling import prepared_calls
from agents.calling.calls import check_allowed
from agents.calling.consent import grant
from agents.calling.model_access import read_model
from agents.calling.model_test import try_model
from agents.calling.records.usage import inherited_usage, usage_by_agent
from agents.calling.servers import choices
from agents.calling.servers.changing import add_server, choose_models, remove_server
from agents.calling.servers.choices import refresh_choices
from agents.calling.servers.keys import key_for, paste_key
from agents.calling.spending import check_budget, spending_of, uncapped_models
from agents.exceptions import BudgetSpent, PriceUnknown
from agents.flows.tests.playing import play
from agents.llm.facts.prices import price_of
from agents.llm.providers.guard import allow_real_calls, forbid_real_calls
from agents.llm.providers.scripted import ScriptedProvider
from agents.llm.providers.tests.model_server import model_server
from agents.models import LLMArtifact
from agents.prompting.declarations import NARRATOR
from agents.tests.declared import CHARACTERS
from agents.tests.recorded_calls import add_call
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter
from storyengine.backups.folder import Reason
from storyengine.backups.taking import back_up
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.forking import fork_chapter

pytestmark = pytest.mark.django_db
MARKED = "sk-marked-key-of-the-test"
PRICED = "openai/gpt-5.2"
_CHUNK = {"choices": [{"index": 0, "delta": {"content": "I nod."}, "finish_reason": "stop"}]}
READY = {"POST /v1/chat/completions": f"data: {json.dumps(_CHUNK)}\n\ndata: [DONE]\n\n".encode()}


@pytest.fixture(autouse=True)
def _data(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "", {}
    settings.OPENAI_BASE_URL = "https://api.openai.com/v1"
    settings.CELERY_BROKER_URL = "filesystem://localhost"
    settings.SERVER_KEYS = {}


@pytest.fixture
def calls_allowed(_no_real_calls: None) -> Iterator[None]:
    """Allow model calls, because they go to a local server that the test itself starts."""
    allow_real_calls()
    yield
    forbid_real_calls()


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter()


def spend(chapter: Session, provider: str, model: str, read: int) -> None:
    add_call(chapter, model, provider=provider, input=read)


class TestCapInDollars:
    @pytest.fixture(autouse=True)
    def _cap(self, settings: Settings) -> None:
        settings.CHAPTER_BUDGET, settings.CHAPTER_TOKENS = Decimal(1), 0

    def test_calls_count_at_the_prices_of_their_own_server(self, chapter: Session) -> None:
        server = add_server("OpenRouter", "https://openrouter.ai/api/v1")
        refresh_choices()
        spend(chapter, "openrouter", PRICED, 1_000_000)
        price = price_of(PRICED, server.address)
        assert price is not None
        assert spending_of(chapter.pk).dollars == price.input > 1
        assert [row.dollars for row in usage_by_agent(chapter)] == [price.input]
        with pytest.raises(BudgetSpent, match=r"of the \$1\.00"):
            check_budget(chapter.pk)
        # The removal of the server is no way around the cap.
        remove_server("openrouter")
        with pytest.raises(BudgetSpent):
            check_budget(chapter.pk)

    def test_a_fork_keeps_the_prices_of_the_servers(
        self, chapter: Session, provider: ScriptedProvider
    ) -> None:
        provider.enqueue("I nod.")
        play(chapter)
        add_server("OpenRouter", "https://openrouter.ai/api/v1")
        refresh_choices()
        spend(chapter, "openrouter", PRICED, 1_000_000)
        chapter.refresh_from_db()
        fork = fork_chapter(chapter.pk, 1)
        assert spending_of(fork.pk).dollars == spending_of(chapter.pk).dollars > 1
        assert PRICED in {row.model for row in inherited_usage(fork)}
        with pytest.raises(BudgetSpent):
            check_budget(fork.pk)

    def test_a_local_server_costs_nothing_whatever_its_model_is_called(
        self, chapter: Session
    ) -> None:
        add_server("Ollama", "http://127.0.0.1:11434/v1")
        choose_models({"": ("ollama", "gpt-5.2")})
        check_allowed(chapter.pk, NARRATOR)
        spend(chapter, "ollama", "gpt-5.2", 1_000_000)
        assert spending_of(chapter.pk).dollars == 0
        check_budget(chapter.pk)

    def test_the_added_openai_is_not_taken_for_the_environments_server(
        self, chapter: Session, settings: Settings
    ) -> None:
        settings.OPENAI_BASE_URL = "http://127.0.0.1:11434/v1"
        server = add_server("OpenAI", "https://api.openai.com/v1")
        refresh_choices()
        spend(chapter, server.provider, "gpt-5.2", 1_000_000)
        spend(chapter, "openai", "gpt-5.2", 1_000_000)
        price = price_of("gpt-5.2", server.address)
        assert price is not None
        assert spending_of(chapter.pk).dollars == price.input
        assert spending_of(chapter.pk).unpriced_tokens == 1_000_000

    def test_a_chosen_model_without_a_price_is_not_called(
        self, chapter: Session, settings: Settings, provider: ScriptedProvider
    ) -> None:
        add_server("Mine", "https://models.example/v1")
        grant("models.example")
        choose_models({"": ("mine", "nobody-knows")})
        assert uncapped_models() == ["nobody-knows"]
        with pytest.raises(PriceUnknown, match=r"nobody-knows at Mine.*STORYENGINE_CHAPTER_TOKENS"):
            check_allowed(chapter.pk, NARRATOR)
        assert play(chapter, key="one").status == Attempt.Status.FAILED
        assert not provider.history
        settings.CHAPTER_TOKENS = 10**6
        assert play(chapter, key="two").status == Attempt.Status.COMMITTED


class TestServersThatChange:
    def test_a_key_stays_for_another_server_with_the_same_address(self) -> None:
        first = add_server("First", "https://models.example/v1")
        add_server("Second", "https://models.example/v1")
        paste_key(first, MARKED)
        remove_server("second")
        assert key_for(first) == MARKED
        remove_server("first")
        assert key_for(first) == ""

    def test_a_call_has_provider_and_model_of_one_choice(
        self, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another thread changes the choice while the call is prepared."""
        choose_models({"": ("environment", "first")})
        grant("api.openai.com")

        def check_and_change(host: str) -> None:
            monkeypatch.setattr(choices, "_stored", {})

        monkeypatch.setattr(prepared_calls, "check_host", check_and_change)
        call = prepared_calls.prepare_call(read_model(CHARACTERS[1]), chapter.pk, lambda: [])
        assert call.request.model == "first"


class TestKeyIsNowhere:
    @pytest.fixture
    def lines(self, caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
        with caplog.at_level(logging.DEBUG):
            yield caplog

    @pytest.mark.usefixtures("calls_allowed")
    def test_after_a_call_the_key_is_in_no_record_backup_export_admin_or_log(
        self,
        chapter: Session,
        admin_client: Client,
        settings: Settings,
        tmp_path: Path,
        lines: pytest.LogCaptureFixture,
    ) -> None:
        with model_server(READY) as running:
            server = add_server("Mine", running.base_url)
            paste_key(server, MARKED)
            choose_models({"": ("mine", "m")})
            assert play(chapter).status == Attempt.Status.COMMITTED
        assert f"Bearer {MARKED}" in {one.key for one in running.questions}
        rows = [
            serialize("json", model._default_manager.all())
            for label in ("story_sessions", "memory", "agents")
            for model in apps.get_app_config(label).get_models()
        ]
        call = LLMArtifact.objects.latest("created_at")
        pages = [
            reverse("admin:agents_modelserver_change", args=["mine"]),
            reverse("admin:agents_modelserver_changelist"),
            reverse("admin:agents_modelchoice_changelist"),
            reverse("admin:agents_llmartifact_change", args=[call.pk]),
        ]
        shown = [admin_client.get(page) for page in pages]
        assert {page.status_code for page in shown} == {200}
        texts = [
            *rows,
            *(page.content.decode() for page in shown),
            export_chapter(chapter.pk).model_dump_json(),
            *(record.getMessage() for record in lines.records),
        ]
        assert "mine" in "".join(rows)
        assert not any(MARKED in text for text in texts)


@pytest.mark.django_db(transaction=True)
def test_a_backup_has_no_key(tmp_path: Path, settings: Any) -> None:
    settings.BACKUPS_FOLDER = tmp_path / "backups"
    paste_key(add_server("Mine", "https://models.example/v1"), MARKED)
    backup = back_up(Reason.ASKED_FOR).read_bytes()
    assert b"models.example" in backup or backup[:5] == b"PGDMP"
    assert MARKED.encode() not in backup


@pytest.mark.parametrize(
    "status",
    [
        401,
        404,
    ],
)
@pytest.mark.usefixtures("calls_allowed")
def test_a_refusal_leads_to_the_page_on_which_the_server_is_set(status: int) -> None:
    with model_server({"POST /v1/chat/completions": status}) as running:
        add_server("Mine", running.base_url)
        choose_models({"AGENT_9": ("mine", "m")})
        problem = try_model(NARRATOR).problem
    assert "OPENAI_" not in problem
    assert f"The server Mine (127.0.0.1:{urlsplit(running.base_url).port})" in problem
    assert "on the page Models" in problem
