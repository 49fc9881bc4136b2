"""What a running job shows of itself to the page that watches it."""

from dataclasses import dataclass, field


@dataclass
class Watch:
    """Written by the flow, stored with each renewal of the lease.

    `text` is what has been written so far; `progress` holds "words" and, for a narration,
    "target_words", "scene" and "scenes".
    """

    text: str = ""
    progress: dict[str, int] = field(default_factory=dict)

    def add(self, text: str) -> None:
        self.text += text
        self.progress["words"] = len(self.text.split())
