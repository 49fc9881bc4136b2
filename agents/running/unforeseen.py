"""Errors that nobody expected, with one text for the GM and another text for the log."""

import traceback

from agents.llm.providers.failures.call_errors import ProviderError


class ProgramFailed(ProviderError):
    """An error that no flow expects. The work is not tried again by itself, because its calls would
    be paid for again.

    `kept` says in whole sentences what was kept and what the GM can do.
    """

    permanent = True

    def __init__(
        self, error: Exception, kept: str = "What was there before is kept. Try again."
    ) -> None:
        super().__init__(
            f"The program itself failed at this ({type(error).__name__}). {kept} "
            "If it fails once more, the program's log says where."
        )


def traceback_of(error: BaseException) -> str:
    """Return the traceback without the errors' messages, which may have words of a story."""
    lines: list[str] = []
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        lines += [f"{type(cause).__name__} at\n", *traceback.format_tb(cause.__traceback__)]
        cause = cause.__cause__ or cause.__context__
    return "".join(lines)
