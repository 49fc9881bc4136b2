from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from pytest_django import Settings

from agents.models import ProcessHeartbeat
from agents.running.heartbeats import DEAD_AFTER, store_heartbeat
from storyengine.operations.checks.process_checks import check_processes, find_faults

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

OWN, OTHER = "web@here:8000", "web@there:8000"
on_postgresql = pytest.mark.skipif(
    connection.vendor != "postgresql", reason="SQLite has no connections"
)


def ids(name: str = OWN) -> list[str | None]:
    return [fault.id for fault in find_faults(name)]


def stored(name: str = OTHER, **values: Any) -> None:
    store_heartbeat(name, {}, role=ProcessHeartbeat.Role.WEB)
    ProcessHeartbeat.objects.filter(name=name).update(**values)


class TestKeys:
    def test_processes_of_one_key_are_fine(self) -> None:
        stored()
        assert ids() == []

    def test_another_key_is_named_and_never_shown(self, settings: Settings) -> None:
        settings.SECRET_KEY = "the-key-of-the-other-machine-0123456789"
        stored()
        settings.SECRET_KEY = "the-key-of-this-machine-0123456789"
        [fault] = find_faults(OWN)
        assert fault.id == "storyengine.W020"
        assert OTHER in fault.msg
        assert fault.hint
        for text in (fault.msg, fault.hint, *ProcessHeartbeat.objects.get().__dict__.values()):
            assert "the-key-of" not in str(text)
        assert [one.id for one in check_processes()] == ["storyengine.W020"]


@on_postgresql
class TestConnections:
    def test_more_than_the_server_allows_are_named(self) -> None:
        stored(most_connections=20)
        assert ids() == []
        stored("celery@big", most_connections=10_000)
        [fault] = find_faults(OWN)
        assert fault.id == "storyengine.W021"
        assert "STORYENGINE_DATABASE_POOL" in str(fault.hint)
        late = timezone.now() - DEAD_AFTER - timedelta(seconds=1)
        ProcessHeartbeat.objects.filter(name="celery@big").update(beat_at=late)
        assert ids() == []

    def test_behind_pgbouncer_backups_need_a_way_past_it(
        self, monkeypatch: pytest.MonkeyPatch, settings: Settings
    ) -> None:
        monkeypatch.setitem(connection.settings_dict, "DISABLE_SERVER_SIDE_CURSORS", True)
        stored("celery@big", most_connections=10_000)
        assert ids() == ["storyengine.W023"]
        settings.DIRECT_DATABASE = {"NAME": "storyengine"}
        assert ids() == []
