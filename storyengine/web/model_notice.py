"""The notice that the embedded model is not ready, or that another model replaces it."""

from dataclasses import dataclass

from agents.calling.servers.choices import uses_embedded
from agents.llm.embedded.status import describe, is_ready, read_embedded_server
from agents.modes.registry import all_agents


@dataclass(frozen=True)
class ModelNotice:
    """A notice for pages. While the model is fetched, `done` and `total` are numbers of bytes.
    Otherwise they are 0."""

    text: str
    done: int = 0
    total: int = 0
    # True if the notice will disappear by itself. It is False for a notice that is shown as long as
    # the program runs.
    is_waiting: bool = True


def read_model_notice() -> ModelNotice | None:
    """Return the notice, or None if no agent uses the embedded model or if the model is ready. The
    choices are used as this process last read them."""
    if not uses_embedded(all_agents()):
        return None
    server = read_embedded_server()
    if server is None:
        return ModelNotice(describe(server))
    if is_ready(server):
        return ModelNotice(server.message, is_waiting=False) if server.message else None
    is_fetching = server.phase == server.Phase.FETCHING
    return ModelNotice(
        describe(server),
        server.bytes_done if is_fetching else 0,
        server.bytes_total if is_fetching else 0,
    )
