"""What to say of the embedded model: that it cannot answer yet, or that another stands in."""

from dataclasses import dataclass

from django.conf import settings

from agents.embedded.status import describe, is_ready, read_embedded_server


@dataclass(frozen=True)
class ModelNotice:
    """`done` and `total` are bytes while the model is being fetched, else 0."""

    text: str
    done: int = 0
    total: int = 0
    # Whether there is something to wait for; otherwise it stands for as long as the program runs.
    is_waiting: bool = True


def read_model_notice() -> ModelNotice | None:
    """None when the model that was asked for is ready."""
    if settings.LLM != "embedded":
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
