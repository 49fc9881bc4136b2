"""What a chapter has set for an agent: a model, and how the model writes.

The settings are stored with the chapter (`Session.model_settings`). An agent that works for a
chapter carries them.
"""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sessions.models import Session

if TYPE_CHECKING:
    from agents.prompting.declarations import Agent


@dataclass(frozen=True)
class OwnSettings:
    """A chapter's settings for an agent. What is not set stays as it is for all chapters.

    `model` counts only while the agent uses the server with the name `server`, because another
    server has other models. `output_tokens` limits the text. A reasoning model may write its hidden
    reasoning beside it.
    """

    server: str = ""
    model: str = ""
    temperature: float | None = None
    top_p: float | None = None
    output_tokens: int | None = None
    stop: tuple[str, ...] = ()

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


def in_chapter(agent: "Agent", chapter: Session) -> "Agent":
    """Return the agent with what the chapter has set for it."""
    stored = chapter.model_settings.get(agent.model_setting)
    return replace(agent, own=_read(stored)) if stored else agent


def _read(stored: dict[str, Any]) -> OwnSettings:
    return OwnSettings(
        server=stored.get("server", ""),
        model=stored.get("model", ""),
        temperature=stored.get("temperature"),
        top_p=stored.get("top_p"),
        output_tokens=stored.get("max_output_tokens"),
        stop=tuple(stored.get("stop", ())),
    )
