"""Reads the state of the embedded model from the row that the model's process writes. The clock of
the database says how old the row is."""

from datetime import timedelta

from django.conf import settings

from agents.models import EmbeddedServer
from sessions.leases import age_of

# A row of at least this age no longer counts. A running process renews its row every few seconds,
# so the process of an older row must have ended.
ALIVE_FOR = timedelta(seconds=20)

NOT_RUNNING = (
    "The embedded model is not running. Start the whole program with `make run`, then try again."
)


# The name of the model, as this process last read it from the row. Every call of a model and every
# page reads the row before it uses the name. So other code need not ask the database for the name.
_last_read = ""


def read_embedded_server() -> EmbeddedServer | None:
    """Return the row with the state of the embedded model, or None if no process has written it."""
    global _last_read
    server = EmbeddedServer.objects.annotate(age_now=age_of("alive_at")).first()
    _last_read = server.model if server else ""
    if server is not None:
        server.age = server.age_now
    return server


def served_model() -> str:
    """Return the name of the running model, as this process last read it from the row.

    If the process has read no row, the configured name is returned. While the fallback model runs,
    its name differs from the configured name. This function does not ask the database.
    """
    return (_last_read or settings.EMBEDDED_MODEL).rsplit("/", 1)[-1]


def is_alive(server: EmbeddedServer | None) -> bool:
    return server is not None and server.age < ALIVE_FOR


def is_ready(server: EmbeddedServer | None) -> bool:
    return server is not None and is_alive(server) and server.phase == EmbeddedServer.Phase.READY


def is_coming(server: EmbeddedServer | None) -> bool:
    """Return whether a call should wait for the model: its process runs and has not failed."""
    return server is not None and is_alive(server) and server.phase != EmbeddedServer.Phase.FAILED


def describe(server: EmbeddedServer | None) -> str:
    """Return a sentence about the state of the embedded model, for the GM."""
    if server is None or not is_alive(server):
        return NOT_RUNNING
    match server.phase:
        case EmbeddedServer.Phase.FETCHING:
            done, total = server.bytes_done // 1_000_000, server.bytes_total // 1_000_000
            return f"The embedded model is being fetched: {done:,} of {total:,} MB."
        case EmbeddedServer.Phase.LOADING:
            return "The embedded model is being loaded; this takes a few seconds."
        case EmbeddedServer.Phase.READY:
            return server.message or "The embedded model is ready."
    return server.message or "The embedded model could not be started."
