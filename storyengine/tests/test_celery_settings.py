"""Tests of the settings of Celery, as the worker's application has them."""

import json
import os
import random
import subprocess
import sys
from typing import Any

import pytest
from django.conf import settings
from django.db import OperationalError

from agents.flows.remembering.summarizing import BACK_OFF_SECONDS
from agents.models import Job
from agents.worker.tasks import run_job
from storyengine.operations.celery import app

# The type is `Any`, because Celery's type stubs lack some of these names.
conf: Any = app.conf
task: Any = run_job

READ = """
import json
from storyengine.operations.celery import app
names = (
    "broker_transport_options",
    "result_backend",
    "broker_connection_max_retries",
    "worker_concurrency",
)
print(json.dumps({name: getattr(app.conf, name) for name in names}))
"""


def read_conf(**variables: str) -> dict[str, Any]:
    """Return Celery's settings as a new process reads them with these environment variables."""
    run = subprocess.run(  # noqa: S603
        [sys.executable, "-c", READ],
        cwd=settings.BASE_DIR,
        env=os.environ | {"DJANGO_SETTINGS_MODULE": "storyengine.settings"} | variables,
        capture_output=True,
        text=True,
        check=True,
    )
    read: dict[str, Any] = json.loads(run.stdout)
    return read


def test_a_task_is_acknowledged_when_it_is_done_and_taken_one_at_a_time() -> None:
    assert conf.task_acks_late is True
    assert conf.task_reject_on_worker_lost is True
    assert conf.worker_prefetch_multiplier == 1


def test_redis_gives_no_message_out_twice_while_its_job_may_run_or_wait() -> None:
    read = read_conf(CELERY_BROKER_URL="redis://localhost:6379/0")
    patience = read["broker_transport_options"]["visibility_timeout"]
    assert patience > conf.task_time_limit + max(BACK_OFF_SECONDS)


def test_each_class_of_work_has_a_queue_and_a_worker_takes_the_most_urgent_first() -> None:
    assert list(app.amqp.queues.consume_from) == Job.Queue.values
    assert {queue.name: queue.routing_key for queue in conf.task_queues} == {
        name: name for name in Job.Queue.values
    }
    read = read_conf(CELERY_BROKER_URL="redis://localhost:6379/0")
    assert read["broker_transport_options"]["queue_order_strategy"] == "priority"


def test_a_page_waits_for_no_broker_longer_than_a_moment() -> None:
    policy = conf.task_publish_retry_policy
    pauses = [
        min(policy["interval_start"] + number * policy["interval_step"], policy["interval_max"])
        for number in range(policy["max_retries"])
    ]
    assert conf.task_publish_retry is True
    assert 0 < sum(pauses) < 1
    # If the broker hangs, a request that sends it a notice must still end in time. The first try
    # waits for one timeout. Each further try waits for two, because it connects again before it
    # sends.
    read = read_conf(CELERY_BROKER_URL="redis://localhost:6379/0")["broker_transport_options"]
    assert read["socket_timeout"] * (1 + 2 * policy["max_retries"]) < 10
    assert read["socket_connect_timeout"] <= read["socket_timeout"]


class TestRetries:
    """Tests of a notice that arrives while the database cannot be reached."""

    @pytest.fixture(autouse=True)
    def _database_is_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_arguments: object, **_options: object) -> None:
            raise OperationalError("the server is away")

        monkeypatch.setattr("agents.worker.tasks.ask_servers", lambda **_options: None)
        monkeypatch.setattr("agents.running.work.claim_place", fail)

    def test_they_come_later_each_time_and_not_all_at_once(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        pauses: list[float] = []

        def note(*_arguments: object, countdown: float, **_options: object) -> Exception:
            pauses.append(countdown)
            return RuntimeError("tried again")

        monkeypatch.setattr(task, "retry", note)
        monkeypatch.setattr(random, "randrange", lambda limit: limit - 1)
        for number in range(task.max_retries):
            task.push_request(retries=number)
            with pytest.raises(RuntimeError):
                task.run(job_id="6fa459ea-ee8a-3ca4-894e-db77e160355e")
            task.pop_request()
        assert pauses == [1, 2, 4, 8, 16]
        monkeypatch.setattr(random, "randrange", lambda _limit: 0)
        task.push_request(retries=4)
        with pytest.raises(RuntimeError):
            task.run(job_id="6fa459ea-ee8a-3ca4-894e-db77e160355e")
        task.pop_request()
        assert pauses[-1] == 0
