"""What to say while the embedded model cannot answer yet."""

from dataclasses import dataclass

from django.conf import settings

from agents.embedded.status import describe, is_ready, read_embedded_server


@dataclass(frozen=True)
class ModelNotice:
    """`done` and `total` are bytes while the model is being fetched, else 0."""

    text: str
    done: int
    total: int


def read_model_notice() -> ModelNotice | None:
    """None when there is nothing to wait for."""
    if settings.LLM != "embedded":
        return None
    server = read_embedded_server()
    if server is None:
        return ModelNotice(describe(server), 0, 0)
    if is_ready(server):
        return None
    is_fetching = server.phase == server.Phase.FETCHING
    return ModelNotice(
        describe(server),
        server.bytes_done if is_fetching else 0,
        server.bytes_total if is_fetching else 0,
    )
