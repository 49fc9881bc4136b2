"""How a model call fails, in words for the GM. `permanent`: trying again will not help."""


class ProviderError(Exception):
    permanent = False


class ProviderUnreachable(ProviderError):
    """No connection, or it dropped before the first word."""


class ProviderTimeout(ProviderError):
    """The server took too long."""


class ProviderBusy(ProviderError):
    """Rate-limited or overloaded (429, 5xx), also after the retries."""


class ProviderRefused(ProviderError):
    """The server said no: bad key, unknown model, invalid request."""

    permanent = True


class StreamBroken(ProviderError):
    """The reply broke off after it had begun."""


class UnusableReply(ProviderError):
    """An answer that is no reply: empty, not the protocol, or not what was asked for."""


class EmptyReply(UnusableReply):
    """An answer that came to a proper end and says nothing."""


class RealCallForbidden(RuntimeError):
    """A test tried to reach a real provider."""
