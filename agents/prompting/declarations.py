"""The engine's own agents: which model each runs on, how much it may write, what its prompt is made
of. The other agents are declared by the ways to play; agents.modes knows all."""

from dataclasses import dataclass
from typing import Literal

from agents.prompting.layer_sources import (
    chapter_text,
    given,
    memory_so_far,
    present_memory,
    process_map,
    prompt_file,
    roster,
    session_state,
    title,
    whole_memory,
    world_text,
)
from agents.prompting.layers import TIERS, Tier, Trim
from agents.prompting.sandwich import LayerDeclaration, Source
from agents.prompting.tools import Tool, ToolForm


@dataclass(frozen=True)
class Agent:
    """Somebody who writes. `agent_id` is its number where it is one of the specification's ten;
    `name` says what it does and is the same for all characters.

    `output_tokens` caps what it writes; a reasoning model gets `reasoning_tokens` on top, because
    its hidden reasoning counts as output and would otherwise use the cap up. `layers` are its
    prompt, in order: stable text first, so that prefix caches work.
    """

    agent_id: int | None
    name: str
    title: str
    default_model: str
    output_tokens: int
    reasoning_tokens: int
    temperature: float
    layers: tuple[LayerDeclaration, ...]
    # How long it is to think, where its model can be told; "" leaves it to the model.
    reasoning_effort: Literal["", "low"] = ""
    # What it may call, the form of calls that suits it best, and in how many calls of the model.
    tools: tuple[Tool, ...] = ()
    tool_form: ToolForm = "native"
    most_steps: int = 8
    # Works while play goes on, so that a local model must not let a reply wait for it.
    is_background: bool = False
    # Which of a model's limits on what it writes are meant for it.
    is_character: bool = False
    is_narrator: bool = False

    @property
    def label(self) -> int | str:
        """For the log: its number where it has one."""
        return self.name if self.agent_id is None else self.agent_id

    @property
    def model_setting(self) -> str:
        """What stands behind STORYENGINE_MODEL_ in the variable that names its model."""
        if self.agent_id is not None:
            return f"AGENT_{self.agent_id}"
        return self.name.upper().replace(".", "_")


def instructions(rules: Source, here: str, protocols: Source) -> tuple[LayerDeclaration, ...]:
    """The system message: who the agent is, where it stands in a chapter's life, what form its
    answer has. The map is the first thing to go."""
    return (
        LayerDeclaration("SYSTEM", rules, role="system", has_heading=False),
        LayerDeclaration(
            "PROCESS_MAP",
            process_map(here),
            role="system",
            trim=Trim.DROP,
            gives_way=-1,
        ),
        LayerDeclaration("PROTOCOLS", protocols, role="system"),
    )


def memory_layer(
    name: str, source: Source, *, tiers: tuple[Tier, ...] = TIERS, is_kept: bool = False
) -> LayerDeclaration:
    """The fold, a line at a time. Its share is fixed, so that the growing context behind it does
    not change it between summaries; and it sheds some lines at once, for the same reason."""
    return LayerDeclaration(
        name,
        source,
        trim=Trim.OLDEST_FIRST,
        gives_way=2,
        step=8,
        share=0.4,
        separator="\n",
        tiers=tiers,
        is_kept=is_kept,
    )


_SESSION_STATE = LayerDeclaration("SESSION_STATE", session_state)

_FORMAT = LayerDeclaration("FORMAT", given("FORMAT"))

WORLD_SUMMARY = Agent(
    0,
    "world_lock",
    "World and Chapter Summary Agent",
    "o4-mini",
    output_tokens=2_400,
    reasoning_tokens=6_000,
    temperature=0.2,
    layers=(
        *instructions(prompt_file("world_lock"), "Lock, as Agent 0", prompt_file("protocol_json")),
        LayerDeclaration("WORLD_TEXT", world_text),
        LayerDeclaration("CHAPTER_TEXT", chapter_text),
        LayerDeclaration("AGENT_ROSTER", roster),
        LayerDeclaration("SYSTEM_NOTES", title),
        _FORMAT,
    ),
    reasoning_effort="low",
)

CONTEXT_SUMMARY = Agent(
    8,
    "memory",
    "Context Summary Agent",
    "o4-mini",
    output_tokens=3_200,
    reasoning_tokens=6_000,
    temperature=0.2,
    layers=(
        *instructions(
            prompt_file("context_summary"), "Summary, as Agent 8", prompt_file("protocol_json")
        ),
        memory_layer("STRUCTURED_MEMORY_SO_FAR", memory_so_far),
        _SESSION_STATE,
        LayerDeclaration("RECENT_CONTEXT_CHUNK", given("RECENT_CONTEXT_CHUNK"), trim=Trim.SHORTEN),
        _FORMAT,
    ),
    reasoning_effort="low",
    is_background=True,
)

# Its definition, its memory, its transcript: of the two orders that the specification names, the
# one in which what a chapter's builds have in common comes first.
NARRATOR = Agent(
    9,
    "narrator",
    "Narrative Agent",
    "gpt-5.2",
    output_tokens=9_000,
    reasoning_tokens=12_000,
    temperature=0.7,
    layers=(
        *instructions(
            prompt_file("narrator", minimal="narrator_minimal"),
            "Narration, as Agent 9",
            prompt_file("protocol_narrator", minimal=""),
        ),
        LayerDeclaration("NARRATIVE_AGENT_DEFINITION", given("NARRATIVE_AGENT_DEFINITION")),
        LayerDeclaration(
            "STRUCTURED_MEMORY",
            whole_memory,
            trim=Trim.CONDENSE,
            gives_way=2,
            share=0.4,
            tiers=("full",),
            is_kept=True,
        ),
        memory_layer(
            "STRUCTURED_MEMORY", present_memory, tiers=("medium", "minimal"), is_kept=True
        ),
        # A small model tells of numbers that it was shown.
        LayerDeclaration("SESSION_STATE", session_state, tiers=("full", "medium")),
        LayerDeclaration("FULL_CHAPTER_CONTEXT", given("FULL_CHAPTER_CONTEXT"), trim=Trim.SHORTEN),
        LayerDeclaration("END_OF_THE_SCENE_BEFORE", given("END_OF_THE_SCENE_BEFORE")),
        LayerDeclaration("TASK", given("TASK")),
    ),
    is_background=True,
    is_narrator=True,
)

# Those that every way to play has; further ones are declared by the modes.
ENGINE_AGENTS = (WORLD_SUMMARY, CONTEXT_SUMMARY, NARRATOR)
