"""Counts the work of a process for Prometheus, by counting lines of the log."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

# The counts of one family of metrics, in the form in which a heartbeat stores them. Each count has
# its name, its labels and its value.
Samples = list[tuple[str, dict[str, str], float]]

REGISTRY = CollectorRegistry()
# The name of this process in the metrics. Several web processes have names of their own (see
# storyengine.operations.heartbeat).
own_name = "web"
_PREFIX = "storyengine"
_FIRST_TOKEN_SECONDS = (0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60)

# By default, Prometheus's library adds a second series to each count, with the time of its
# creation. No code uses that series.
disable_created_metrics()  # type: ignore[no-untyped-call]


def _counter(name: str, meaning: str, *labels: str) -> Counter:
    return Counter(name, meaning, labels, namespace=_PREFIX, registry=REGISTRY)


_requests = _counter("requests", "Requests by route and status.", "route", "status")
_turns = _counter("turns", "Attempts at a reply, by what became of them.", "outcome")
_jobs = _counter("jobs", "What happened to jobs.", "kind", "outcome")
_calls = _counter("model_calls", "Calls of models, by agent.", "agent", "outcome")
_tokens = _counter("tokens", "As providers report them; cached ones are read ones.", "agent", "way")
_failures = _counter("failures", "What failed, and of what.", "of", "kind")
_logins = _counter(
    "login_failures", "Wrong passwords and tokens, and tries that were not looked at."
)
_found = _counter("sweep_findings", "What dead processes had left behind.", "what")
open_streams = Gauge(
    "open_streams", "Streams that are being read.", namespace=_PREFIX, registry=REGISTRY
)
_first_token = Histogram(
    "first_token_seconds",
    "Of a character's reply: from the call to its first word.",
    namespace=_PREFIX,
    registry=REGISTRY,
    buckets=_FIRST_TOKEN_SECONDS,
)

Fields = Mapping[str, Any]


class CountingHandler(logging.Handler):
    """A log handler that counts the events which sessions.log_lines.note logs. It writes
    nothing."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "fields", None)
        count = _COUNTS.get(record.msg) if isinstance(fields, Mapping) else None
        if count is not None:
            count(fields or {})


def own_samples() -> dict[str, Samples]:
    """Return all counts of this process, by family of metrics."""
    return {
        family.name: [(one.name, dict(one.labels), one.value) for one in family.samples]
        for family in REGISTRY.collect()
    }


def _count_request(fields: Fields) -> None:
    _requests.labels(fields["route"], str(fields["status"])).inc()


def _count_turn(outcome: str) -> Callable[[Fields], None]:
    def count(fields: Fields) -> None:
        _turns.labels(outcome).inc()
        if outcome == "failed":
            _failures.labels("turn", fields.get("kind", "unknown")).inc()

    return count


def _count_job(outcome: str) -> Callable[[Fields], None]:
    def count(fields: Fields) -> None:
        _jobs.labels(fields["kind"], outcome).inc()
        if failure := fields.get("failure"):
            _failures.labels(f"job {fields['kind']}", failure).inc()

    return count


def _count_call(fields: Fields) -> None:
    agent = str(fields["agent"])
    _calls.labels(agent, fields["outcome"]).inc()
    for way in ("input", "output", "cached"):
        _tokens.labels(agent, way).inc(fields.get(way, 0))
    if failure := fields.get("failure"):
        _failures.labels("model call", failure).inc()
    if fields.get("is_reply") and (milliseconds := fields.get("first_token_ms")) is not None:
        _first_token.observe(milliseconds / 1000)


def _count_findings(fields: Fields) -> None:
    for what, name in (("turns", "attempts"), ("jobs", "jobs"), ("given_up", "given_up")):
        _found.labels(what).inc(fields.get(name, 0))


_COUNTS: dict[str, Callable[[Fields], None]] = {
    "request": _count_request,
    "login failed": lambda _fields: _logins.inc(),
    "token refused": lambda _fields: _logins.inc(),
    "model call": _count_call,
    "sweep found": _count_findings,
    **{
        f"attempt {name}": _count_turn(name)
        for name in ("stored", "committed", "failed", "stopped")
    },
    **{
        f"job {name}": _count_job(name)
        for name in ("claimed", "done", "failed", "postponed", "given back", "cancelled")
    },
}
