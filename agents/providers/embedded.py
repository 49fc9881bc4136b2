"""Placeholder until the provider is written."""

from agents.providers.openai_compatible import OpenAICompatibleProvider


class EmbeddedProvider(OpenAICompatibleProvider): ...
