"""Tests of the commands `prepare` and `serve`, called as make and honcho call them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import pytest
from django.conf import settings as django_settings
from django.core.management import CommandError, call_command
from pytest_django import Settings

from agents.flows.beginning.locking import request_lock
from agents.llm.embedded.status import is_coming, is_ready, read_embedded_server
from agents.models import EmbeddedServer, Job
from agents.running.work import work_on
from sessions.models import State
from sessions.tests.factories import make_chapter
from storyengine.access.listening import open_listeners


@pytest.fixture
def prepare(settings: Settings, free_port: int, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.PASSWORD = ""
    # The command must not migrate, because a migration would end the test's transaction.
    monkeypatch.setattr(
        "storyengine.operations.management.commands.prepare.call_command",
        lambda *args, **kwargs: None,
    )
    # The command must not close the connection, because the test's transaction runs on it.
    monkeypatch.setattr("agents.llm.embedded.report.close_old_connections", lambda: None)


@pytest.mark.usefixtures("prepare")
class TestPrepare:
    @pytest.mark.parametrize(
        ("llm", "processes"), [("embedded", "web worker model"), ("openai", "web worker")]
    )
    def test_it_names_what_honcho_has_to_start(
        self, settings: Settings, free_port: int, llm: str, processes: str
    ) -> None:
        settings.LLM = llm
        assert call_command("prepare") == f"--port {free_port} {processes}"

    def test_a_worker_that_is_up_before_the_model_waits_for_it(self, settings: Settings) -> None:
        settings.LLM = "embedded"
        # A run that was killed has left this row. No server answers at the address in it.
        EmbeddedServer.objects.create(phase="ready", model="old", base_url="http://gone")
        chapter = make_chapter()
        job = request_lock(chapter.pk)
        call_command("prepare")
        server = read_embedded_server()
        assert is_coming(server)
        assert not is_ready(server)
        work_on(job.pk)
        job.refresh_from_db()
        chapter.refresh_from_db()
        assert (job.status, job.attempts) == (Job.Status.QUEUED, 0)
        assert chapter.state == State.LOCKING

    def test_a_taken_port_ends_it(self, free_port: int) -> None:
        (listener,) = open_listeners()
        with listener:
            listener.listen()
            with pytest.raises(CommandError, match="is taken"):
                call_command("prepare")
        # Another run of the program uses the port. The command must not store a row, because the
        # row would describe the model of that run.
        assert not EmbeddedServer.objects.exists()


def test_what_is_weak_is_said_at_the_start(free_port: int, tmp_path: Path) -> None:
    """`prepare` prints its warnings to standard error, because honcho's arguments are on standard
    output."""
    environment = os.environ | {
        "PORT": str(free_port),
        "STORYENGINE_DATA": str(tmp_path),
        "STORYENGINE_PASSWORD": "11-of-them-",
        # The weak password is a danger here, because other machines can reach this address.
        "STORYENGINE_HOST": "0.0.0.0",  # noqa: S104
        "STORYENGINE_API_TOKEN": "11-of-them-",
    }
    for name in ("DATABASE_URL", "CELERY_BROKER_URL"):
        environment.pop(name, None)
    run = subprocess.run(
        [sys.executable, "manage.py", "prepare"],
        cwd=django_settings.BASE_DIR,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert run.stdout.startswith(f"--port {free_port} web worker")
    for words in (
        "STORYENGINE_PASSWORD has fewer than 12 characters.",
        "STORYENGINE_API_TOKEN has fewer than 12 characters.",
        "STORYENGINE_HTTPS is not set: password, cookies and texts travel unencrypted.",
    ):
        assert words in run.stderr
    assert "11-of-them-" not in run.stdout + run.stderr


@pytest.fixture
def server(free_port: int, tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    environment = os.environ | {"PORT": str(free_port), "STORYENGINE_DATA": str(tmp_path)}
    for name in ("STORYENGINE_PASSWORD", "DATABASE_URL", "CELERY_BROKER_URL"):
        environment.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "manage.py", "serve"],
        cwd=django_settings.BASE_DIR,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    yield process
    process.kill()
    process.communicate()


class TestServe:
    def test_it_serves_when_it_says_so_and_stops_when_told(
        self, server: "subprocess.Popen[str]", free_port: int
    ) -> None:
        assert server.stdout is not None
        assert f"http://localhost:{free_port} (on this machine only)" in server.stdout.readline()

        connection = HTTPConnection("127.0.0.1", free_port)
        # The address /healthz answers although there is no database yet.
        connection.request("GET", "/healthz", headers={"Host": "localhost"})
        response = connection.getresponse()
        assert (response.status, response.read()) == (200, b'{"status": "ok"}')
        assert response.getheader("Server") is None
        connection.close()

        server.send_signal(signal.SIGTERM)
        rest, _ = server.communicate(timeout=30)
        assert rest == ""
        assert server.returncode in (0, -signal.SIGTERM)
