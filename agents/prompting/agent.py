"""The declaration of an agent of the engine or of a mode."""

from dataclasses import dataclass, replace
from typing import Literal

from agents.prompting.own_settings import NOTHING_SET, OwnSettings
from agents.prompting.sandwich import LayerDeclaration
from agents.prompting.small_forms import SmallForm
from agents.prompting.tools import Tool, ToolForm
from sessions.models import Session


@dataclass(frozen=True)
class Agent:
    """The declaration of an agent.

    `agent_id` is the number of one of the specification's ten agents, and None for any other agent.
    `name` says what the agent does, so all characters have the same name. `output_tokens` limits
    the text that the agent writes. A reasoning model may use `reasoning_tokens` in addition,
    because servers count hidden reasoning as output. `layers` are the layers of the agent's request
    in their order, with stable text first, because servers cache the beginnings of requests.
    """

    agent_id: int | None
    name: str
    title: str
    default_model: str
    output_tokens: int
    reasoning_tokens: int
    temperature: float
    layers: tuple[LayerDeclaration, ...]
    # When the agent is asked, in the words of pages.
    occasion: str = "With each prompt, and each reply written again"
    # How much the model should reason, if the model accepts this option. "" leaves the choice to
    # the model.
    reasoning_effort: Literal["", "low"] = ""
    # The tools that the agent may call. The next two fields are the form in which the agent should
    # write the calls, and the most steps of a reply.
    tools: tuple[Tool, ...] = ()
    tool_form: ToolForm = "native"
    most_steps: int = 8
    # True if the agent works in the background. A local model must then serve replies first.
    is_background: bool = False
    # The facts about a model have one output limit for characters and one for narrators. The first
    # field is True if the limit for characters applies to the agent, and the second field if the
    # limit for narrators does.
    is_character: bool = False
    is_narrator: bool = False
    # The seconds before each further try of a call that failed before any text arrived, because the
    # server was busy or had trouble (429, 5xx). If this is empty, the provider decides.
    retry_waits: tuple[float, ...] = ()
    # A request of the agent has at most this many tokens, however large the window is. None for no
    # such limit.
    most_read: int | None = None
    # The agent's limit on text is multiplied by this number, because the user has chosen short or
    # long replies.
    length_factor: float = 1.0
    # True if the agent speaks as one person in the story, so that the rules of
    # agents.prompting.cleaning.reply_rules apply. The embedded model is asked again for a reply
    # that breaks one of them.
    has_reply_rules: bool = False
    # The form of a request to the embedded model; None for the usual request. The next field is
    # True once the agent has this form (see `in_small_form`).
    small: SmallForm | None = None
    has_small_form: bool = False
    # The settings of the chapter that the agent works for (see `in_chapter`).
    own: OwnSettings = NOTHING_SET

    @property
    def text_tokens(self) -> int:
        """The limit of the tokens of text that the agent may write."""
        return self.own.output_tokens or round(self.output_tokens * self.length_factor)

    def in_small_form(self) -> "Agent":
        """Return the agent in its form for the embedded model. In this form the agent has no
        tools."""
        if self.small is None:
            return self
        return replace(
            self,
            layers=self.small.layers,
            tools=(),
            output_tokens=self.small.output_tokens,
            temperature=self.small.temperature,
            has_small_form=True,
        )

    @property
    def most_tries(self) -> int:
        """How often the embedded model is asked for one reply, until it has no fault."""
        return self.small.most_tries if self.small and self.has_small_form else 2

    @property
    def label(self) -> int | str:
        """The agent's number, or its name if it has no number. Log lines show this label."""
        return self.name if self.agent_id is None else self.agent_id

    @property
    def model_setting(self) -> str:
        """The last part of the name of the environment variable STORYENGINE_MODEL_…, which sets the
        agent's model."""
        if self.agent_id is not None:
            return f"AGENT_{self.agent_id}"
        return self.name.upper().replace(".", "_")


def in_chapter(agent: Agent, chapter: Session) -> Agent:
    """Return the agent with the chapter's settings for it."""
    stored = chapter.model_settings.get(agent.model_setting)
    return replace(agent, own=OwnSettings.from_stored(stored)) if stored else agent
