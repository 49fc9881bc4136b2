"""The counts of the work of this process, for Prometheus. Each count is raised where its event
happens."""

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
)

REGISTRY = CollectorRegistry()
_PREFIX = "storyengine"

# By default, Prometheus's library adds a second series to each count, with the time of its
# creation. No code uses that series.
disable_created_metrics()  # type: ignore[no-untyped-call]


def _counter(name: str, meaning: str, *labels: str) -> Counter:
    return Counter(name, meaning, labels, namespace=_PREFIX, registry=REGISTRY)


requests = _counter("requests", "Requests by route and status.", "route", "status")
turns = _counter("turns", "Attempts at a reply, by what became of them.", "outcome")
jobs = _counter("jobs", "What happened to jobs.", "kind", "outcome")
model_calls = _counter("model_calls", "Calls of models, by agent.", "agent", "outcome")
tokens = _counter("tokens", "As providers report them; cached ones are read ones.", "agent", "way")
failures = _counter("failures", "What failed, and of what.", "of", "kind")
login_failures = _counter(
    "login_failures", "Wrong passwords and tokens, and tries that were not looked at."
)
sweep_findings = _counter("sweep_findings", "What dead processes had left behind.", "what")
open_streams = Gauge(
    "open_streams", "Streams that are being read.", namespace=_PREFIX, registry=REGISTRY
)
first_token_seconds = Histogram(
    "first_token_seconds",
    "Of a character's reply: from the call to its first word.",
    namespace=_PREFIX,
    registry=REGISTRY,
    buckets=(0.1, 0.25, 0.5, 1, 2, 5, 10, 20, 30, 60),
)
