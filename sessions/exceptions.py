"""Refusals that a GM can read: what happened, what was kept, what to do."""

import re


class ChapterError(Exception):
    """A request that a chapter refuses; nothing was changed.

    `status` is the HTTP status that fits and `title` names the kind of refusal in a few words.
    `retry_seconds` says when the same may succeed, where waiting alone helps.
    """

    status = 409
    title = "The chapter cannot do that now"
    retry_seconds: int | None = None

    @property
    def headers(self) -> dict[str, str]:
        """For the answer that tells it."""
        return {"Retry-After": str(self.retry_seconds)} if self.retry_seconds else {}

    @classmethod
    def kind(cls) -> str:
        """The class's name as jobs and the API's problems call it, such as `wrong-state`."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class UnknownChapter(ChapterError):
    status = 404
    title = "No such chapter"


class WrongState(ChapterError):
    pass


class TurnInFlight(WrongState):
    title = "A reply is being written"


class KeyReused(WrongState):
    title = "Sent already"


class InvalidInput(ChapterError):
    status = 422
    title = "That cannot be accepted"


class TooLong(InvalidInput):
    title = "Too long"


class UnknownTurn(ChapterError):
    status = 404
    title = "No such prompt or reply"
