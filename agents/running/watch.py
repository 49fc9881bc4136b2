"""The text and the progress of a running job, which a page shows."""

from dataclasses import dataclass, field

from sessions.language.text import with_replacements
from sessions.language.words import count_words


@dataclass
class Watch:
    """The text and the plan of a running job. The job's flow sets both, and each renewal of the
    lease stores them.

    `plan` has the numbers that a narration knows in advance: "target_words", "scene" and "scenes".
    """

    parts: list[str] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Add a piece of text. The pieces are kept in a list and not joined here, because this
        method is called very often."""
        self.parts.append(text)

    def show(self, text: str) -> None:
        """Replace the text so far with this text."""
        self.parts = [text]

    @property
    def text(self) -> str:
        return with_replacements("".join(self.parts))

    @property
    def progress(self) -> dict[str, int]:
        return {**self.plan, "words": count_words(self.text)}
