"""The reasons why there is no embedded model, with messages for the GM and for the log."""


class _NoEmbeddedModel(Exception):
    """An error whose message may be logged, because the message never has text of a story."""

    is_for_the_log = True


class WeightsUnavailable(_NoEmbeddedModel):
    """The weights cannot be fetched, because the network or disk space is missing, or because the
    fetched file is not the expected one."""


class ServerFailed(_NoEmbeddedModel):
    """llama.cpp did not start, or it ended unexpectedly."""
