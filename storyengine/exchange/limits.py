"""How much a file may hold: what anybody sends over the network, and what the server's own operator
imports. What a single entry may be is the same for both."""

from dataclasses import dataclass
from typing import Final

from storyengine.stack.own_commands import own_command


@dataclass(frozen=True)
class Limits:
    file_bytes: int
    # A few bytes can become an object of a hundred: what the file would be in memory is bounded
    # too. Prose has a comma in fifty characters, so that no honest file comes near.
    separators: int
    # Of all attempts together; a turn has one at least.
    turns: int
    attempts: int
    events: int
    changes: int
    results: int
    memory_blocks: int
    narrative_drafts: int
    unanswered_attempts: int
    # What to do about a file that is over one of them, with the place of the command for it.
    _way_on: str = ""

    @property
    def way_on(self) -> str:
        """A sentence without its stop; empty where there is none."""
        return self._way_on.format(command=import_command())

    def refuse(self, problem: str) -> str:
        """The problem, and the way on after it."""
        return f"{problem}. {self.way_on}" if self.way_on else problem


def import_command() -> str:
    """As whoever runs the server types it there."""
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
