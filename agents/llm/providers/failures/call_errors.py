"""The errors of a model call, with messages for the GM.

`permanent` is True if another try cannot succeed.
"""


class ProviderError(Exception):
    """The failure of a call. `said` has the words of the server or the model about it, or is "".
    They are no part of the message, because the message has only words of the program."""

    permanent = False

    def __init__(self, message: str = "", *, said: str = "") -> None:
        super().__init__(message)
        self.said = said


class ProviderUnreachable(ProviderError):
    """The connection failed, or broke before the first word."""


class ProviderTimeout(ProviderError):
    """The server took too long."""


class ProviderBusy(ProviderError):
    """The server was overloaded or limited the number of calls (429, 5xx) at each try."""


class ProviderRefused(ProviderError):
    """The server refused the call, because of a bad key, an unknown model or an invalid request."""

    permanent = True


class ContextOverflow(ProviderRefused):
    """The request is longer than the model's window. `window` has the tokens of this window if the
    server named them."""

    def __init__(self, message: str = "", *, said: str = "", window: int | None = None) -> None:
        super().__init__(message, said=said)
        self.window = window


class FieldRefused(ProviderRefused):
    """The server refuses a field that shapes the answer, so the request has to be composed anew.

    `fields` are all fields that the server has refused in this call.
    """

    def __init__(self, message: str, fields: frozenset[str], *, said: str = "") -> None:
        super().__init__(message, said=said)
        self.fields = fields


# A provider charges nothing for these errors, because it made no reply.
FREE_FAILURES = (ProviderUnreachable, ProviderBusy, ProviderRefused)


class StreamBroken(ProviderError):
    """The reply broke off after it had begun."""


class UnusableReply(ProviderError):
    """The answer was empty, did not follow the protocol, or did not have the requested form."""


class EmptyReply(UnusableReply):
    """The answer ended properly but has no text."""


class ModelDeclined(UnusableReply):
    """The model declined as a program does, and told nothing of the story."""


class OnlyThoughts(UnusableReply):
    """The answer has hidden reasoning and nothing else."""


class RealCallForbidden(RuntimeError):
    """A test tried to reach a real provider."""
