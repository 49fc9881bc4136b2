"""Why there is no embedded model, in words for the GM and for the log, where pages send the GM."""


class _NoEmbeddedModel(Exception):
    """Its words are this program's, pip's or the system's, and hold no text of a story."""

    is_for_the_log = True


class WeightsUnavailable(_NoEmbeddedModel):
    """The weights cannot be had: no network, no space, not what was expected."""


class ServerFailed(_NoEmbeddedModel):
    """llama.cpp did not start, or ended."""
