"""Writes metrics for Prometheus: the counts of this process and of all other processes, and the
numbers of waiting jobs."""

from collections.abc import Iterable
from typing import Any

from django.db import Error as DatabaseError
from django.db.models import Count, Max
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from agents.models import Job
from agents.running.heartbeats import is_alive, read_counts, since_last_heartbeat
from agents.running.jobs import due_jobs, has_chapter
from sessions.counts import REGISTRY
from sessions.leases import age_of

# The counts of one family of metrics, as a heartbeat stores them. Each count has its name, its
# labels and its value.
Samples = list[tuple[str, dict[str, str], float]]

# The name of this process in the metrics. Several web processes have names of their own (see
# storyengine.operations.heartbeat).
own_name = "web"


def own_samples() -> dict[str, Samples]:
    """Return all counts of this process, by family of metrics."""
    return {
        family.name: [(one.name, dict(one.labels), one.value) for one in family.samples]
        for family in REGISTRY.collect()
    }


def render_metrics() -> bytes:
    """Return the metrics in the text format of Prometheus.

    If the database fails, only the counts of this process are included.
    """
    registry = CollectorRegistry()
    registry.register(_Everything())
    return generate_latest(registry)


class _Everything(Collector):
    def collect(self) -> Iterable[Metric]:
        try:
            of_processes, rows = read_counts(), list(_rows())
        except DatabaseError:
            of_processes, rows = {}, []
        return [
            *_counted(of_processes),
            *rows,
            _gauge("database_up", "It answered.", int(bool(rows))),
        ]


def _counted(of_processes: dict[str, tuple[bool, dict[str, Any]]]) -> Iterable[Metric]:
    """Yield the counts of this process, and the counts that the other processes have stored. For a
    dead process, values of a moment, such as the number of open streams, are 0."""
    others = {name: row for name, row in of_processes.items() if name != own_name}
    for own in REGISTRY.collect():
        family = Metric(own.name, own.documentation, own.type)
        for one in own.samples:
            family.add_sample(one.name, {**one.labels, "process": own_name}, one.value)
        for process, (lives, stored) in others.items():
            for name, labels, value in stored.get(own.name, ()):
                shown = value if lives or own.type != "gauge" else 0
                family.add_sample(name, {**labels, "process": process}, shown)
        yield family


def _rows() -> Iterable[Metric]:
    """Yield the metrics of jobs and workers. Three queries read these metrics, each with an
    index."""
    waiting = GaugeMetricFamily(
        "storyengine_waiting_jobs", "Queued or running, by kind.", labels=["kind", "status"]
    )
    # The jobs of a deleted chapter do not wait for a worker.
    unfinished = Job.objects.filter(
        has_chapter(), status__in=(Job.Status.QUEUED, Job.Status.RUNNING)
    )
    counted = unfinished.order_by().values_list("kind", "status").annotate(Count("pk"))
    for kind, status, count in counted:
        waiting.add_metric([kind, status], count)
    yield waiting
    oldest = GaugeMetricFamily(
        "storyengine_oldest_waiting_job_seconds", "Since it could have run.", labels=["kind"]
    )
    ages = due_jobs().order_by().values_list("kind").annotate(age=Max(age_of("run_after")))
    for kind, age in ages:
        oldest.add_metric([kind], max(0.0, age.total_seconds()))
    yield oldest
    yield _gauge(
        "worker_up", "A worker has shown lately that it lives.", is_alive(since_last_heartbeat())
    )


def _gauge(name: str, meaning: str, value: float) -> Metric:
    return GaugeMetricFamily(f"storyengine_{name}", meaning, value=value)
