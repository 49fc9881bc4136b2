"""The limits on files of chapters. The server's operator may import larger files than users of the
pages and the API.

The limits on single values are the same for everybody.
"""

from dataclasses import dataclass
from typing import Any, Final

from storyengine.settings.own_commands import own_command


@dataclass(frozen=True)
class Limits:
    file_bytes: int
    # The file has at most this many commas and opening brackets. They limit the number of values,
    # because a few bytes of JSON can become an object of a hundred bytes. Prose has about one comma
    # in fifty characters, and stays far below this limit.
    separators: int
    # The following limits are numbers of entries in the whole file.
    turns: int
    attempts: int
    events: int
    changes: int
    results: int
    memory_blocks: int
    narrative_drafts: int
    unanswered_attempts: int
    # The advice for a file that exceeds a limit. `{command}` in it stands for the command that
    # imports a file.
    _way_on: str = ""

    @property
    def way_on(self) -> str:
        """The advice as a sentence without a full stop, or "" if there is no advice."""
        return self._way_on.format(command=import_command())

    def refuse(self, problem: str) -> str:
        """Return the problem and the advice as one text."""
        return f"{problem}. {self.way_on}" if self.way_on else problem


def count_entries(chapter: object) -> dict[str, int]:
    """Return the number of entries in the whole chapter, for each list that has a limit.

    The chapter is a `Chapter`, or the JSON of a file before its check. If a value should be a list
    and is none, it counts as an empty list.
    """
    turns = _all_of("turns", [chapter])
    attempts = _all_of("attempts", turns)
    unanswered = _all_of("unanswered_attempts", [chapter])
    return {
        "turns": len(turns),
        "attempts": len(attempts),
        "events": len(_all_of("events", attempts)),
        "changes": len(_all_of("changes", [*attempts, *unanswered])),
        "results": len(_all_of("results", [chapter])),
        "memory_blocks": len(_all_of("memory_blocks", [chapter])),
    }


def _all_of(name: str, parts: list[Any]) -> list[Any]:
    """Return the entries of all lists with this name. `parts` are JSON objects or models."""
    objects = (one if isinstance(one, dict) else getattr(one, "__dict__", {}) for one in parts)
    lists = [one.get(name) for one in objects]
    return [entry for entries in lists if isinstance(entries, list) for entry in entries]


def import_command() -> str:
    """Return the command line that the server's operator can run to import a file."""
    return own_command("import_chapter", "FILE")


OVER_THE_NETWORK: Final = Limits(
    file_bytes=20_000_000,
    separators=2_000_000,
    turns=50_000,
    attempts=50_000,
    events=100_000,
    changes=100_000,
    results=10_000,
    memory_blocks=20_000,
    narrative_drafts=1_000,
    unanswered_attempts=10_000,
    _way_on="Whoever runs the server can import it there with `{command}`",
)
OF_THE_OPERATOR: Final = Limits(
    file_bytes=500_000_000,
    separators=20_000_000,
    turns=500_000,
    attempts=500_000,
    events=1_000_000,
    changes=1_000_000,
    results=100_000,
    memory_blocks=200_000,
    narrative_drafts=10_000,
    unanswered_attempts=100_000,
)

MAX_FILE_BYTES: Final = OVER_THE_NETWORK.file_bytes
