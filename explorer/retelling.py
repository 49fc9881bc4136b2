"""Layers that tell the engine's memory agent and its narrator of Tab 3 how an exploration was
played: whose words the numbered paragraphs are, and who "I" and "you" are."""

from agents.mode_declarations import AddedLayer
from agents.prompting.layer_sources import file_piece
from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Subject
from explorer.learned import known_there

_NAME = "HOW_IT_WAS_PLAYED"


def _for_memory(subject: Subject, tier: Tier) -> list[Piece]:
    return [file_piece("explorer.played_for_memory", player=_player(subject))]


def _for_narrator(subject: Subject, tier: Tier) -> list[Piece]:
    is_small = tier == "minimal"
    name = "explorer.played_for_narrator_minimal" if is_small else "explorer.played_for_narrator"
    return [file_piece(name, player=_player(subject))]


def _player(subject: Subject) -> str:
    # The cast begins with the player (`cast_of` in explorer/lock.py).
    return subject.chapter.character(1).name


RETELLING_LAYERS = (
    AddedLayer("memory", "CAST", LayerDeclaration(_NAME, _for_memory, role="system")),
    AddedLayer("memory", "RECENT_CONTEXT_CHUNK", LayerDeclaration("WHAT_IS_NOTED", known_there)),
    AddedLayer("narrator", "CAST", LayerDeclaration(_NAME, _for_narrator, role="system")),
)
