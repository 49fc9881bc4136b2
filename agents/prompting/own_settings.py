"""The settings of a chapter for an agent: a model, and how the model writes.

The settings are stored with the chapter (`Session.model_settings`). An agent that works for the
chapter carries its settings.
"""

from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class OwnSettings:
    """A chapter's settings for an agent. A setting that the chapter lacks is the same as for all
    chapters.

    `model` counts only while the agent uses the server with the name `server`, because another
    server has other models. `output_tokens` limits the text. A reasoning model may write hidden
    reasoning in addition.
    """

    server: str = ""
    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    output_tokens: int | None = None
    stop: tuple[str, ...] = ()

    @classmethod
    def from_stored(cls, stored: dict[str, Any]) -> Self:
        return cls(
            server=stored.get("server", ""),
            model=stored.get("model", ""),
            temperature=stored.get("temperature"),
            top_p=stored.get("top_p"),
            output_tokens=stored.get("max_output_tokens"),
            stop=tuple(stored.get("stop", ())),
        )

    def as_stored(self) -> dict[str, Any]:
        stored = {
            "server": self.server if self.model else "",
            "model": self.model,
            "temperature": self.temperature,
            "top_p": self.top_p,
            "max_output_tokens": self.output_tokens,
            "stop": list(self.stop),
        }
        return {name: value for name, value in stored.items() if value not in ("", None, [])}


NOTHING_SET = OwnSettings()
