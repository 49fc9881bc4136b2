"""The errors of a model call, with messages for the GM.

`permanent` is True if another try cannot succeed.
"""

# What stands in the record of a call between the message and the words of the server.
_SAYS = " It says: "


class ProviderError(Exception):
    """`said` is what the server or the model said of it, or "". It is no part of the message,
    because the message has only words of ours. The record of the call has both (`in_full`)."""

    permanent = False

    def __init__(self, message: str = "", *, said: str = "") -> None:
        super().__init__(message)
        self.said = said

    @property
    def in_full(self) -> str:
        return f"{self}{_SAYS}“{self.said}”" if self.said else str(self)


def said_beside(message: str, recorded: str) -> str:
    """Return the words of the server in a record (`in_full`), or "" if there are none, or if the
    message, to which a sentence may have been added, is not that of the record."""
    ours, _, said = recorded.partition(_SAYS)
    is_of_message = message.startswith(ours)
    return said.removeprefix("“").removesuffix("”") if is_of_message else ""


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
