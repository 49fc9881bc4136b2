"""The errors that the code in agents/ raises to refuse an action, with messages for the GM."""

from collections.abc import Sequence

from agents.llm.providers.failures.call_errors import ProviderError
from sessions.exceptions import ChapterError, InvalidInput
from sessions.payloads import place_in_words


class ConsentMissing(ChapterError):
    """Texts would be sent to another machine, which the GM has not allowed."""

    status = 403
    title = "Permission needed"

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(
            f"This would send your texts to {host}, which you have not allowed yet. "
            "Nothing was sent; allow the host on the page Privacy."
        )


class RateLimited(ChapterError):
    """Too many calls were made within a minute."""

    status = 429
    title = "Too many model calls"
    retry_seconds = 60


class BudgetSpent(ChapterError):
    """The chapter has reached a cap."""

    status = 429
    title = "Budget spent"


class BudgetReserved(RateLimited):
    """The calls that are being made may use up the rest of a cap. A job waits after this refusal,
    as it does after RateLimited."""

    title = "Rest of the budget reserved"


class PriceUnknown(BudgetSpent):
    """The user has chosen a model without a known price, which a cap in dollars cannot stop."""

    title = "Price not known"


class BadSetup(InvalidInput):
    """The fields that a mode adds to Tab 1 have values that the mode's model does not accept.

    Each entry of `problems` has the keys and indexes that lead to a wrong field, and the reason why
    the field is wrong.
    """

    def __init__(self, problems: Sequence[tuple[tuple[int | str, ...], str]]) -> None:
        self.problems = problems
        place, problem = problems[0]
        where = place_in_words(place) or "the setup"
        # A message that is a whole sentence already says what was kept.
        kept = "" if problem.endswith(".") else ". Nothing was changed."
        super().__init__(f"{where}: {problem}{kept}")


class PromptTooLong(InvalidInput):
    """The request does not fit into the model's window, even in its shortest form."""

    title = "Too long for the model"


class ModelNotReady(ProviderError):
    """The embedded model cannot answer yet. `is_coming` is True if the caller can wait for it."""

    def __init__(self, message: str, *, is_coming: bool) -> None:
        self.is_coming = is_coming
        super().__init__(message)
