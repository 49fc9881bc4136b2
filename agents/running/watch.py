"""What a running job shows to the page that watches it."""

from dataclasses import dataclass, field


@dataclass
class Watch:
    """The text and the plan of a job, set by its flow and stored at each renewal of the lease.

    `plan` is what a narration knows in advance: "target_words", "scene" and "scenes".
    """

    parts: list[str] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Add a piece of text; this only collects it, because it is called for each piece."""
        self.parts.append(text)

    def show(self, text: str) -> None:
        """Start over with this text."""
        self.parts = [text]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def progress(self) -> dict[str, int]:
        return {**self.plan, "words": len(self.text.split())}
