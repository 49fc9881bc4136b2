"""Refusals that the GM can read. Each says what happened, what was kept, and what to do."""

import re


class ChapterError(Exception):
    """The refusal of a request for a chapter. The request has changed nothing.

    `status` is the HTTP status, and `title` names the kind of refusal in a few words. Another try
    may succeed after `retry_seconds`, which is None if waiting is of no use.
    """

    status = 409
    title = "The chapter cannot do that now"
    retry_seconds: int | None = None
    # A short text for pages, for a refusal whose message is for programs. A page shows this text,
    # and shows the message after a click.
    in_short = ""
    # The name of a template that a page shows below the message, or "". The next field is a
    # template for the page that a browser without scripts gets. It takes the place of the words
    # that were sent.
    template = ""
    form_template = ""

    @property
    def headers(self) -> dict[str, str]:
        """The HTTP headers of a response with this refusal."""
        return {"Retry-After": str(self.retry_seconds)} if self.retry_seconds else {}

    @classmethod
    def kind(cls) -> str:
        """Return the class's name in the form that jobs and problems use, such as `wrong-state` for
        WrongState."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class UnknownChapter(ChapterError):
    status = 404
    title = "No such chapter"


class UnknownStory(ChapterError):
    status = 404
    title = "No such story"

    def __init__(self) -> None:
        super().__init__(
            "There is no such story. It may have been deleted; the home page shows what there is."
        )


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


class TooLarge(InvalidInput):
    """The error for a file with more bytes than are read."""

    status = 413
    title = "Too large"


class UnknownStarter(ChapterError):
    status = 404
    title = "No such starter"


class UnknownTurn(ChapterError):
    status = 404
    title = "No such prompt or reply"
