"""Placeholder until the provider is written."""

from agents.providers.base import Provider


def host_of(base_url: str) -> str:
    return ""


class OpenAICompatibleProvider(Provider):
    def __init__(self, **kwargs: object) -> None: ...
    def stream(self, request): ...
