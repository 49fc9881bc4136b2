"""What a running job shows of itself to the page that watches it."""

from dataclasses import dataclass, field


@dataclass
class Watch:
    """Written by the flow, stored with each renewal of the lease.

    `plan` is what a narration knows beforehand: "target_words", "scene" and "scenes".
    """

    parts: list[str] = field(default_factory=list)
    plan: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Called for each piece of text as it arrives, so it only collects."""
        self.parts.append(text)

    def show(self, text: str) -> None:
        """Start over from this text."""
        self.parts = [text]

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @property
    def progress(self) -> dict[str, int]:
        return {**self.plan, "words": len(self.text.split())}
