"""The errors of a model call, with messages for the GM.

`permanent` is True if another try cannot succeed.
"""


class ProviderError(Exception):
    permanent = False


class ProviderUnreachable(ProviderError):
    """The connection failed, or broke before the first word."""


class ProviderTimeout(ProviderError):
    """The server took too long."""


class ProviderBusy(ProviderError):
    """The server was overloaded or limited the number of calls (429, 5xx) at each try."""


class ProviderRefused(ProviderError):
    """The server refused the call, because of a bad key, an unknown model or an invalid request."""

    permanent = True


# The errors for which a provider charges nothing, because it made no reply.
FREE_FAILURES = (ProviderUnreachable, ProviderBusy, ProviderRefused)


class StreamBroken(ProviderError):
    """The reply broke off after it had begun."""


class UnusableReply(ProviderError):
    """The answer was empty, did not follow the protocol, or did not have the requested form."""


class EmptyReply(UnusableReply):
    """The answer ended properly but has no text."""


class RealCallForbidden(RuntimeError):
    """A test tried to reach a real provider."""
