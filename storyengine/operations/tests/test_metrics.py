"""Tests of the metrics for Prometheus. They describe the process that is asked, the workers, and
the jobs that wait."""

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.db import OperationalError
from django.test import Client
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families

from agents.flows.tests.playing import play
from agents.llm.providers.failures.call_errors import ProviderBusy
from agents.llm.providers.scripted import Script, ScriptedProvider
from agents.models import Job, ProcessHeartbeat
from agents.running.heartbeats import store_heartbeat
from agents.running.jobs import queue_job
from sessions.chapter.stories import hide_chapter
from sessions.tests.factories import make_active_chapter
from storyengine.operations import exposition
from storyengine.operations.exposition import own_samples
from storyengine.operations.tests.reading import growth, read_metrics

RunJobs = Callable[[], int]


@pytest.mark.django_db(transaction=True)
class TestCounts:
    def test_a_reply(self, provider: ScriptedProvider) -> None:
        before = read_metrics()
        provider.enqueue("Three words here.")
        play(make_active_chapter())
        grown = growth(before)
        assert grown['storyengine_turns_total{outcome="stored",process="web"}'] == 1
        assert grown['storyengine_turns_total{outcome="committed",process="web"}'] == 1
        calls = 'storyengine_model_calls_total{agent="1",outcome="finished",process="web"}'
        assert grown[calls] == 1
        assert grown['storyengine_tokens_total{agent="1",process="web",way="output"}'] == 3
        assert grown['storyengine_tokens_total{agent="1",process="web",way="input"}'] > 100
        assert grown['storyengine_first_token_seconds_count{process="web"}'] == 1
        assert grown['storyengine_first_token_seconds_bucket{le="+Inf",process="web"}'] == 1

    def test_a_failure_by_its_kind(self, provider: ScriptedProvider) -> None:
        before = read_metrics()
        provider.enqueue(Script("A few", error=ProviderBusy("busy")))
        play(make_active_chapter())
        grown = growth(before)
        assert grown['storyengine_turns_total{outcome="failed",process="web"}'] == 1
        for what in ("turn", "model call"):
            series = "storyengine_failures_total"
            assert grown[f'{series}{{kind="ProviderBusy",of="{what}",process="web"}}'] == 1

    def test_a_job(self, provider: ScriptedProvider, run_jobs: RunJobs) -> None:
        before = read_metrics()
        provider.enqueue(ProviderBusy("busy"))
        queue_job(make_active_chapter().pk, Job.Kind.LOCK, "lock")
        run_jobs()
        grown = growth(before)
        for outcome in ("claimed", "failed"):
            series = "storyengine_jobs_total"
            assert grown[f'{series}{{kind="lock",outcome="{outcome}",process="web"}}'] == 1
        failures = "storyengine_failures_total"
        assert grown[f'{failures}{{kind="ProviderBusy",of="job lock",process="web"}}'] == 1


@pytest.mark.django_db
class TestWorkers:
    def test_what_they_counted_is_told_beside_it(self) -> None:
        counts = own_samples()
        family = "storyengine_jobs"
        counts[family] = [(f"{family}_total", {"kind": "lock", "outcome": "done"}, 7.0)]
        for worker in ("celery@one", "celery@two"):
            store_heartbeat(worker, counts)
        told = read_metrics()
        for worker in ("celery@one", "celery@two"):
            series = f'{family}_total{{kind="lock",outcome="done",process="{worker}"}}'
            assert told[series] == 7

    def test_a_worker_that_has_ended_is_counted_and_not_alive(self) -> None:
        store_heartbeat("celery@one", own_samples())
        assert read_metrics()["storyengine_worker_up"] == 1
        store_heartbeat("celery@one", own_samples(), is_last=True)
        told = read_metrics()
        assert told["storyengine_worker_up"] == 0
        assert 'storyengine_open_streams{process="celery@one"}' in told

    def test_a_web_process_has_one_name_in_each_scrape(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(exposition, "own_name", "web@here:8000")
        for name in ("web@here:8000", "web@there:8000"):
            store_heartbeat(name, own_samples(), role=ProcessHeartbeat.Role.WEB)
        told = read_metrics()
        series = [name for name in told if name.startswith("storyengine_open_streams")]
        assert sorted(series) == [
            f'storyengine_open_streams{{process="web@{host}:8000"}}' for host in ("here", "there")
        ]
        # A web process does no work of a worker.
        assert told["storyengine_worker_up"] == 0


@pytest.mark.django_db
class TestQueue:
    def test_its_length_and_its_oldest_job_by_kind(self) -> None:
        chapter = make_active_chapter()
        ago = timezone.now() - timedelta(seconds=90)
        for key, kind in (("a", Job.Kind.NARRATE), ("b", Job.Kind.NARRATE), ("c", Job.Kind.LOCK)):
            queue_job(chapter.pk, kind, key)
        Job.objects.filter(key="b").update(run_after=ago)
        Job.objects.filter(key="c").update(status=Job.Status.RUNNING)
        told = read_metrics()
        waiting = "storyengine_waiting_jobs"
        assert told[f'{waiting}{{kind="narrate",status="queued"}}'] == 2
        assert told[f'{waiting}{{kind="lock",status="running"}}'] == 1
        oldest = told['storyengine_oldest_waiting_job_seconds{kind="narrate"}']
        assert 90 <= oldest < 150
        hide_chapter(chapter.pk)
        assert not [name for name in read_metrics() if name.startswith(waiting)]


@pytest.mark.django_db
def test_the_page_is_prometheus_s_own_form(client: Client) -> None:
    response = client.get("/metrics")
    assert response["Content-Type"].startswith("text/plain; version=")
    families = list(text_string_to_metric_families(response.content.decode()))
    assert {"storyengine_turns", "storyengine_database_up"} <= {one.name for one in families}
    assert client.post("/metrics").status_code in (403, 405)


def test_without_a_database_it_tells_what_it_counted_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail() -> None:
        raise OperationalError("The lamp is dark.")

    monkeypatch.setattr(exposition, "read_counts", fail)
    told = read_metrics()
    assert told["storyengine_database_up"] == 0
    assert 'storyengine_open_streams{process="web"}' in told
