"""Why there is no embedded model, in words for the GM."""


class WeightsUnavailable(Exception):
    """The weights cannot be had: no network, no space, not what was expected."""


class ServerFailed(Exception):
    """llama.cpp did not start, or ended."""
