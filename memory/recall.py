"""Memory as prompts carry it: one compact text a block, oldest first."""

from memory.models import MemoryBlock
from memory.rendering import render_delta_brief, render_memory
from sessions.models import Session


def memory_layer_pieces(chapter: Session) -> list[tuple[str, str]]:
    """Each block in full and, for a delta, in the brief form that small windows fall back to."""
    blocks = list(chapter.memory_blocks.order_by("created_at"))
    briefs = (
        render_delta_brief(block) if block.type == MemoryBlock.Type.TURN_DELTA else ""
        for block in blocks
    )
    return list(zip(render_memory(blocks), briefs, strict=True))
