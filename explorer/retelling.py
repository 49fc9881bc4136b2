"""Layers for the engine's memory agent and its narrator of Tab 3 in an exploration: the frame of
this way to play in place of the Game Master's, memory without anybody's whereabouts, because the
world has them, and the events that the player has heard about."""

from dataclasses import replace

from agents.modes.declaration import AddedLayer
from agents.prompting.declarations import CONTEXT_SUMMARY, NARRATOR
from agents.prompting.layer_sources import file_piece, memory_without_places, summary_rules
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from explorer.learned import known_there
from explorer.played_world import WORLD
from explorer.state import heard_of


def _memory_rules(subject: Subject, tier: Tier) -> list[Piece]:
    return [*summary_rules("explorer.memory", player=_player(subject))(subject, tier)]


def _narration_rules(subject: Subject, tier: Tier) -> list[Piece]:
    if tier != "minimal":
        return [file_piece("explorer.narration", player=_player(subject))]
    whose = file_piece("explorer.played_for_narrator_minimal", player=_player(subject))
    return [file_piece("narrator_minimal"), whose]


def _process_map(here: str) -> Source:
    def read(subject: Subject, tier: Tier) -> list[Piece]:
        if tier == "minimal":
            return []
        prompts = str(subject.chapter.chunk_size_prompts)
        return [file_piece("explorer.process_map", here=here, prompts=prompts)]

    return read


def _heard_of(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the events out of the player's sight that the player has learned about."""
    told = heard_of(WORLD.now(subject.chapter))
    return [Piece("\n".join(f"- {one}" for one in told))] if told and tier != "minimal" else []


def _player(subject: Subject) -> str:
    # The cast begins with the player (`cast_of` in explorer/lock.py).
    return subject.chapter.character(1).name


def _instead(agent: str, layer: LayerDeclaration) -> AddedLayer:
    return AddedLayer(agent, layer.name, layer)


def _own(layers: tuple[LayerDeclaration, ...], name: str, source: Source) -> LayerDeclaration:
    """Return the engine's layer of this name with another source."""
    return replace(next(one for one in layers if one.name == name), source=source)


_OF_MEMORY, _OF_NARRATOR = CONTEXT_SUMMARY.layers, NARRATOR.layers
_MEMORY_SO_FAR = _own(_OF_MEMORY, "STRUCTURED_MEMORY_SO_FAR", memory_without_places)
_MEMORY = _own(_OF_NARRATOR, "STRUCTURED_MEMORY", memory_without_places)

RETELLING_LAYERS = (
    _instead("memory", _own(_OF_MEMORY, "SYSTEM", _memory_rules)),
    _instead("memory", _own(_OF_MEMORY, "PROCESS_MAP", _process_map("Summary, as Agent 8"))),
    _instead("memory", _MEMORY_SO_FAR),
    AddedLayer("memory", "RECENT_CONTEXT_CHUNK", LayerDeclaration("WHAT_IS_NOTED", known_there)),
    _instead("narrator", _own(_OF_NARRATOR, "SYSTEM", _narration_rules)),
    _instead("narrator", _own(_OF_NARRATOR, "PROCESS_MAP", _process_map("Narration, as Agent 9"))),
    _instead("narrator", _MEMORY),
    AddedLayer("narrator", "SESSION_STATE", LayerDeclaration("HEARD_OF", _heard_of)),
)
