"""The layer CAST, which tells every agent who takes part in the story.

The layer is the same for all characters, so that their requests begin in the same way.
"""

from collections.abc import Sequence

from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from sessions.roster import NAME, PUBLIC_TEXTS, Character

TOLD_OF_EVERYBODY = f"{' / '.join(f'“{one.label}”' for one in PUBLIC_TEXTS)} of everybody"
_LEAD = "Everybody who takes part in this story, and what all of them may know of each:"


def cast_layer(*, with_slots: bool = False) -> LayerDeclaration:
    """Return the layer with the public texts of the cast.

    With `with_slots`, the layer also has the slots of the characters, for an agent that names them.
    """
    return LayerDeclaration("CAST", _cast(with_slots), role="system", tells=TOLD_OF_EVERYBODY)


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
