"""The words for a server in messages to the user, and the places where the user can set it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Subject:
    """A server as the subject of a sentence: "The server Ollama (127.0.0.1:11434)".

    `key_place`, `address_place` and `model_place` are the objects of "Check ...". They say where
    the user sets the server's key, its address and its model.
    """

    name: str
    key_place: str = "its key"
    address_place: str = "its address"
    model_place: str = "its model"

    def __str__(self) -> str:
        return self.name


def of_environment(place: str) -> Subject:
    """Return the environment's server. `place` is its host and port."""
    return Subject(
        f"The server {place}",
        "OPENAI_API_KEY in the environment",
        "OPENAI_BASE_URL in the environment",
        "the model (on the page Models, on Models of this chapter, or STORYENGINE_MODEL in the "
        "environment)",
    )


def of_page(title: str, place: str) -> Subject:
    """Return a server that was added on the page Models."""
    return Subject(
        f"The server {title} ({place})",
        "its key on the page Models",
        "its address on the page Models",
        "the model (on the page Models, or on Models of this chapter)",
    )
