"""Declares the engine's own agents, with their models, their limits and the layers of their
requests.

Modes declare further agents. The module agents.modes.registry knows the agents of all modes.
"""

from collections.abc import Sequence

from agents.prompting.agent import Agent
from agents.prompting.layer_sources import (
    chapter_text,
    own_pieces,
    present_memory,
    process_map,
    prompt_file,
    recent_context,
    roster,
    session_state,
    summary_rules,
    title,
    world_text,
)
from agents.prompting.layers import Piece, Tier, Trim
from agents.prompting.memory_additions import ADDED_KEYS
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from sessions.roster import NAME, PUBLIC_TEXTS, Character

_LEAD = "Everybody who takes part in this story, and what all of them may know of each:"


def cast_layer(*, with_slots: bool = False) -> LayerDeclaration:
    """Return the layer with the public texts of the cast.

    With `with_slots`, the layer also has the slots of the characters, for an agent that names them.
    """
    return LayerDeclaration("CAST", _cast(with_slots), role="system")


def cast_lines(cast: Sequence[Character], *, with_slots: bool = False) -> list[str]:
    """Return a line for each member of the cast, without the identity."""
    return [_line(one, with_slots) for one in cast]


def _cast(with_slots: bool) -> Source:
    def read(subject: Subject, tier: Tier) -> list[Piece]:
        lines = cast_lines(subject.everybody, with_slots=with_slots)
        return [Piece("\n".join([_LEAD, *lines]))] if lines else []

    return read


def _line(one: Character, with_slots: bool) -> str:
    slot = f", slot {one.slot}" if with_slots and one.slot else ""
    known = "".join(text.as_told(getattr(one, text.name)) for text in PUBLIC_TEXTS if text != NAME)
    # The texts of older files may have line feeds. The words after a line feed could pass for
    # another member of the cast.
    return " ".join(f"- {one.name}{slot}{known}".split())


def instructions(
    rules: Source, process: Source, protocols: Source, *, cast: LayerDeclaration | None = None
) -> tuple[LayerDeclaration, ...]:
    """Return the layers of the system message: the rules, the map of the process, the form of the
    answer, and the cast.

    If a request is too long, its map of the process is the first layer that is dropped.
    """
    return (
        LayerDeclaration("SYSTEM", rules, role="system", has_heading=False),
        LayerDeclaration(
            "PROCESS_MAP",
            process,
            role="system",
            trim=Trim.DROP,
            gives_way=-1,
        ),
        LayerDeclaration("PROTOCOLS", protocols, role="system"),
        cast or cast_layer(),
    )


def memory_layer(name: str, source: Source, *, is_kept: bool = False) -> LayerDeclaration:
    """Return the layer that tells the fold. Each line of the fold is a piece.

    Memory gives way first if the request is too long, but holds a fraction of the budget until the
    transcript has given way too. An eighth of its room is dropped at a time, so that the
    layer changes less often.
    """
    return LayerDeclaration(
        name,
        source,
        trim=Trim.OLDEST_FIRST,
        gives_way=0,
        grain=0.125,
        holds=0.4,
        separator="\n",
        is_kept=is_kept,
        is_memory=True,
    )


# The layer of the latest turns, word for word. It is shortened before it loses turns, and keeps the
# latest one.
RECENT_CONTEXT = LayerDeclaration(
    "RECENT_CONTEXT",
    recent_context,
    trim=Trim.CONDENSE,
    gives_way=1,
    step=3,
    floor=1,
    is_kept=True,
)

_SESSION_STATE = LayerDeclaration("SESSION_STATE", session_state)

_FORMAT = LayerDeclaration("FORMAT", own_pieces("FORMAT"))

WORLD_SUMMARY = Agent(
    0,
    "world_lock",
    "World and Chapter Summary Agent",
    "o4-mini",
    output_tokens=2_400,
    reasoning_tokens=6_000,
    temperature=0.2,
    layers=(
        *instructions(
            prompt_file("world_lock"), process_map("Lock, as Agent 0"), prompt_file("protocol_json")
        ),
        LayerDeclaration("WORLD_TEXT", world_text),
        LayerDeclaration("CHAPTER_TEXT", chapter_text),
        LayerDeclaration("AGENT_ROSTER", roster),
        LayerDeclaration("SYSTEM_NOTES", title),
        _FORMAT,
    ),
    occasion="When you start a chapter",
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
            summary_rules("context_summary"),
            process_map("Summary, as Agent 8"),
            prompt_file("protocol_json"),
            cast=cast_layer(with_slots=True),
        ),
        memory_layer("STRUCTURED_MEMORY_SO_FAR", present_memory),
        _SESSION_STATE,
        LayerDeclaration(
            "RECENT_CONTEXT_CHUNK",
            own_pieces("RECENT_CONTEXT_CHUNK"),
            trim=Trim.SHORTEN,
            gives_way=1,
        ),
        # The keys that the chapter's mode adds, if it adds any.
        LayerDeclaration(ADDED_KEYS, own_pieces(ADDED_KEYS)),
        _FORMAT,
    ),
    occasion="In the background, after every seven prompts or as many as the chapter says, and "
    "when you end it",
    reasoning_effort="low",
    is_background=True,
)

# The specification allows two orders of these layers. In this order, the layers that are the same
# in all builds of a chapter come first.
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
            process_map("Narration, as Agent 9"),
            prompt_file("protocol_narrator", minimal=""),
        ),
        LayerDeclaration("NARRATIVE_AGENT_DEFINITION", own_pieces("NARRATIVE_AGENT_DEFINITION")),
        memory_layer("STRUCTURED_MEMORY", present_memory, is_kept=True),
        # A small model does not get this layer, because it would copy the layer's numbers into the
        # story.
        LayerDeclaration("SESSION_STATE", session_state, tiers=("full", "medium")),
        LayerDeclaration(
            "FULL_CHAPTER_CONTEXT",
            own_pieces("FULL_CHAPTER_CONTEXT"),
            trim=Trim.SHORTEN,
            gives_way=1,
        ),
        LayerDeclaration("END_OF_THE_SCENE_BEFORE", own_pieces("END_OF_THE_SCENE_BEFORE")),
        LayerDeclaration("START_OF_THE_SCENE_AFTER", own_pieces("START_OF_THE_SCENE_AFTER")),
        LayerDeclaration("TASK", own_pieces("TASK")),
    ),
    occasion="When you build the narrative, and each scene written again",
    is_background=True,
    is_narrator=True,
)

# The agents that every mode has. A mode may declare more.
ENGINE_AGENTS = (WORLD_SUMMARY, CONTEXT_SUMMARY, NARRATOR)
