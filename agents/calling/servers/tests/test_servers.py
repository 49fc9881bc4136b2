"""Tests of servers as rows, of the choice for each agent, and of keys that belong to one
address."""

import asyncio
import ipaddress
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from agents.calling.consent import check_consent, grant
from agents.calling.model_access import provider_at
from agents.calling.model_test import try_model
from agents.calling.servers import choices
from agents.calling.servers.addresses import clean_address
from agents.calling.servers.changing import add_server, choose_models, remove_server
from agents.calling.servers.choices import choice_of, refresh_choices, uses_embedded
from agents.calling.servers.keys import (
    KeysUnreadable,
    key_for,
    paste_key,
    source_of_key,
    why_unusable,
)
from agents.exceptions import ConsentMissing
from agents.llm.providers.connecting import is_refused
from agents.llm.providers.model_lists import Listing, ask_names
from agents.llm.providers.tests.model_server import model_server
from agents.models import ModelChoice, ModelServer
from agents.prompting.declarations import CONTEXT_SUMMARY, NARRATOR
from sessions.exceptions import InvalidInput
from storyengine.access.log_format import redact

pytestmark = pytest.mark.django_db
MARKED = "sk-marked-key-of-the-test"
_CHUNK = {"choices": [{"index": 0, "delta": {"content": "Ready."}, "finish_reason": "stop"}]}
READY = {"POST /v1/chat/completions": f"data: {json.dumps(_CHUNK)}\n\ndata: [DONE]\n\n".encode()}


@pytest.fixture(autouse=True)
def _data(settings: Settings, tmp_path: Path) -> None:
    settings.DATA_FOLDER = tmp_path
    settings.LLM, settings.MODEL, settings.MODEL_BY_AGENT = "openai", "", {}
    settings.CELERY_BROKER_URL = "filesystem://localhost"
    settings.SERVER_KEYS = {}


class TestChoices:
    def test_the_agents_own_choice_wins_over_that_for_all_and_can_be_taken_back(self) -> None:
        add_server("Ollama", "http://127.0.0.1:11434/v1")
        choose_models({"": ("ollama", "small"), "AGENT_9": ("environment", "large")})
        assert (choice_of(NARRATOR).model, choice_of(NARRATOR).source) == ("large", "agent")
        choose_models({"AGENT_9": None})
        assert (choice_of(NARRATOR).model, choice_of(NARRATOR).source) == ("small", "all")
        remove_server("ollama")
        assert choice_of(NARRATOR).source == "default"

    def test_another_process_sees_a_choice_after_one_query(
        self, django_assert_num_queries: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        add_server("Ollama", "http://127.0.0.1:11434/v1")
        choose_models({"AGENT_9": ("ollama", "small")})
        monkeypatch.setattr(choices, "_stored", {})
        with django_assert_num_queries(1):
            refresh_choices()
        assert choice_of(NARRATOR).server.address == "http://127.0.0.1:11434/v1"

    def test_the_built_in_model_is_chosen_only_where_it_can_be_started(
        self, settings: Settings
    ) -> None:
        choose_models({"AGENT_9": ("embedded", "")})
        assert uses_embedded([NARRATOR])
        assert not uses_embedded([CONTEXT_SUMMARY])
        settings.CELERY_BROKER_URL = "redis://broker/0"
        with pytest.raises(InvalidInput, match="does not run here"):
            choose_models({"AGENT_8": ("embedded", "")})
        settings.LLM = "embedded"
        choose_models({"AGENT_8": ("embedded", "")})

    def test_a_wrong_entry_stores_none_of_them(self) -> None:
        with pytest.raises(InvalidInput):
            choose_models({"AGENT_9": ("environment", "m"), "AGENT_8": ("nowhere", "m")})
        assert not ModelChoice.objects.exists()

    def test_each_host_needs_its_own_permission(self) -> None:
        add_server("Elsewhere", "https://models.example/v1")
        choose_models({"AGENT_9": ("elsewhere", "m")})
        with pytest.raises(ConsentMissing, match=r"models\.example"):
            check_consent(NARRATOR)
        with pytest.raises(ConsentMissing):
            try_model(NARRATOR)
        grant("models.example")
        check_consent(NARRATOR)


class TestAddresses:
    @pytest.mark.parametrize(
        "address",
        [
            "http://169.254.169.254/latest",
            "http://[fe80::1]/v1",
            "http://[::ffff:169.254.169.254]/v1",
            "http://[64:ff9b::a9fe:a9fe]/v1",
            "http://[2002:a9fe:a9fe::1]/v1",
            "http://[fd00:ec2::254]/v1",
            "http://2852039166/v1",
            "http://0xa9fea9fe/v1",
            "http://0.0.0.0/v1",
            "https://user:secret@models.example/v1",
            "ftp://models.example",
            "models.example",
            "https://models.example/v1?key=1",
        ],
    )
    def test_these_are_refused(self, address: str) -> None:
        with pytest.raises(InvalidInput):
            clean_address(address)

    @pytest.mark.parametrize("text", ["127.0.0.1", "::1", "192.168.1.4", "8.8.8.8", "2001:db8::1"])
    def test_other_addresses_are_not(self, text: str) -> None:
        assert not is_refused(ipaddress.ip_address(text))

    @pytest.mark.usefixtures("calls_allowed")
    def test_a_name_of_a_link_local_address_gets_no_connection(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        tried: list[str] = []

        def resolve(*_arguments: Any, **_more: Any) -> list[Any]:
            tried.append("resolved")
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 80))]

        def connect(*_arguments: Any) -> None:
            raise AssertionError("a connection was tried")

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        monkeypatch.setattr(socket.socket, "connect", connect)
        assert asyncio.run(ask_names("http://metadata.example/v1")) == Listing()
        assert tried == ["resolved"]

    def test_a_name_stays_with_its_address(self) -> None:
        add_server("Mine", "https://models.example/v1")
        remove_server("mine")
        for title in ("Mine", "OpenRouter"):
            with pytest.raises(InvalidInput, match="belongs to"):
                add_server(title, "https://thief.example/v1")
        add_server("Mine", "https://models.example/v1")


class TestKeys:
    def test_a_pasted_key_is_private_and_goes_to_its_address_alone(self, tmp_path: Path) -> None:
        mine = add_server("Mine", "https://models.example/v1")
        other = add_server("Other", "https://models.example/other")
        paste_key(mine, MARKED)
        assert (key_for(mine), key_for(other)) == (MARKED, "")
        file = tmp_path / "model-keys.json"
        assert file.stat().st_mode & 0o777 == 0o600
        assert list(tmp_path.iterdir()) == [file]
        rows = [*ModelServer.objects.values(), *ModelChoice.objects.values()]
        assert MARKED not in json.dumps(rows, default=str)
        remove_server("mine")
        assert MARKED not in file.read_text()

    def test_keys_that_are_pasted_at_the_same_moment_are_all_kept(self, tmp_path: Path) -> None:
        """Each process changes the file as a whole, so one must wait for the other."""
        script = (
            "import sys, django; django.setup()\n"
            "from django.conf import settings; settings.DATA_FOLDER = sys.argv[1]\n"
            "settings.CELERY_BROKER_URL = 'filesystem://localhost'\n"
            "from agents.calling.servers import keys\n"
            "from agents.calling.servers.choices import Server\n"
            "print('ready', flush=True); sys.stdin.readline()\n"
            "for n in range(20):\n"
            "    server = Server(f's{n}', '', f'https://{sys.argv[2]}-{n}.example/v1')\n"
            "    keys.paste_key(server, 'sk-of-the-test')\n"
        )
        processes = [
            subprocess.Popen(  # noqa: S603  (the command is this test's own)
                [sys.executable, "-c", script, str(tmp_path), name],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "DJANGO_SETTINGS_MODULE": "storyengine.settings"},
            )
            for name in ("one", "two")
        ]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait() for process in processes] == [0, 0]
        assert len(json.loads((tmp_path / "model-keys.json").read_text())) == 40

    def test_an_unusable_file_does_not_keep_a_server(self, tmp_path: Path) -> None:
        server = add_server("Mine", "https://models.example/v1")
        paste_key(server, MARKED)
        assert why_unusable() == ""
        (tmp_path / "model-keys.json").chmod(0o644)
        assert "can be read by other users" in why_unusable()
        remove_server("mine")
        assert ModelServer.objects.get().is_removed

    def test_the_environment_wins(self, settings: Settings) -> None:
        server = add_server("OpenRouter", "https://openrouter.ai/api/v1")
        paste_key(server, MARKED)
        settings.SERVER_KEYS = {"OPENROUTER": "sk-of-the-environment"}
        assert key_for(server) == "sk-of-the-environment"
        assert source_of_key(server) == "environment"

    def test_no_pasted_key_travels_over_plain_http_beyond_loopback(self) -> None:
        paste_key(add_server("Here", "http://localhost:1/v1"), MARKED)
        with pytest.raises(InvalidInput, match="http://"):
            paste_key(add_server("There", "http://models.example/v1"), MARKED)

    def test_nothing_is_pasted_where_the_folder_may_not_be_shared(self, settings: Settings) -> None:
        settings.CELERY_BROKER_URL = "redis://localhost"
        with pytest.raises(InvalidInput, match="STORYENGINE_KEY_MINE"):
            paste_key(add_server("Mine", "https://models.example/v1"), MARKED)

    @pytest.mark.parametrize("fault", ["link", "open", "damaged"])
    def test_a_file_that_is_not_private_is_not_used(self, tmp_path: Path, fault: str) -> None:
        server = add_server("Mine", "https://models.example/v1")
        paste_key(server, MARKED)
        file = tmp_path / "model-keys.json"
        if fault == "link":
            file.rename(tmp_path / "elsewhere")
            file.symlink_to(tmp_path / "elsewhere")
        elif fault == "open":
            file.chmod(0o644)
        else:
            file.write_text(f'{{"{MARKED}')
            os.chmod(file, 0o600)
        with pytest.raises(KeysUnreadable) as refused:
            key_for(server)
        assert MARKED not in str(refused.value)
        with pytest.raises(KeysUnreadable):
            paste_key(server, "sk-another-key")

    def test_no_log_line_has_a_pasted_key(self) -> None:
        paste_key(add_server("Mine", "https://models.example/v1"), MARKED)
        assert MARKED not in redact(f"the key is {MARKED}")

    @pytest.mark.usefixtures("calls_allowed")
    def test_a_call_carries_the_key_of_its_address_only(self) -> None:
        with model_server(READY) as running, model_server({}) as other:
            server = add_server("Mine", running.base_url)
            add_server("Other", other.base_url)
            paste_key(server, MARKED)
            choose_models({"AGENT_9": ("mine", "m"), "AGENT_8": ("other", "m")})
            assert provider_at(choice_of(NARRATOR).server).name == "mine"
            result = try_model(NARRATOR)
            failed = try_model(CONTEXT_SUMMARY)
        assert (result.works, result.said, result.problem) == (True, "Ready.", "")
        assert not failed.works
        assert failed.problem
        assert [one.key for one in running.questions] == [f"Bearer {MARKED}"]
        assert other.questions
        assert not any(MARKED in one.key for one in other.questions)
        assert MARKED not in f"{result} {failed}"

    @pytest.mark.usefixtures("calls_allowed")
    def test_no_redirect_takes_the_key_along(self) -> None:
        with model_server({"GET /v1/models": 302}) as running:
            assert asyncio.run(ask_names(running.base_url, MARKED)).names is None
        assert running.asked == ["GET /v1/models"]

    @pytest.mark.usefixtures("calls_allowed")
    def test_a_list_of_models_is_bounded(self) -> None:
        entries = [{"id": "b"}, {"id": "a"}, {"id": "x" * 201}, {"id": "\x1b[31m"}, {"id": 3}, 4]
        with model_server({"GET /v1/models": {"data": entries}}) as running:
            assert asyncio.run(ask_names(running.base_url)).names == ["a", "b"]

    @pytest.mark.usefixtures("calls_allowed")
    def test_what_came_in_place_of_a_list_is_kept_without_the_key(self) -> None:
        answer = {"error": {"message": f"No list for {MARKED} today"}}
        with model_server({"GET /v1/models": answer}) as running:
            listing = asyncio.run(ask_names(running.base_url, MARKED))
        assert listing.names is None
        assert listing.said.startswith("No list for")
        assert MARKED not in listing.said
