"""Composes the texts of memory blocks for requests: one compact text for each block, the oldest
block first."""

import uuid
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from memory.blocks import counting_blocks, knows
from memory.models import MemoryBlock
from memory.telling.rendering import render, render_delta_brief
from sessions.models import Session


@dataclass(frozen=True)
class ToldBlock:
    """The text of a block. `brief` is a shorter text of a delta, for small windows."""

    full: str
    brief: str
    is_delta: bool
    is_lock: bool = False


def told_blocks(
    chapter: Session, *, before: int | None = None, readers: Collection[int] | None = None
) -> list[ToldBlock]:
    """Return the texts of the blocks that count. With `readers`, a block is included only if each
    of these readers knows it.

    `counting_blocks` explains `before`.
    """
    blocks = counting_blocks(chapter, before=before).values_list("pk", "audience")
    return [_render(block_id) for block_id, audience in blocks if knows(audience, readers)]


def told_lock(chapter: Session) -> str:
    """Return the text of the lock, or "" if the chapter has no lock yet."""
    locks = chapter.memory_blocks.filter(type=MemoryBlock.Type.WORLD_CHAPTER_LOCK)
    block_id = locks.values_list("pk", flat=True).first()
    return _render(block_id).full if block_id else ""


@lru_cache(maxsize=2_048)
def _render(block_id: uuid.UUID) -> ToldBlock:
    """Return a block's text. The text is cached, because blocks never change and every request
    needs them."""
    block = MemoryBlock.objects.get(pk=block_id)
    is_delta = block.type == MemoryBlock.Type.TURN_DELTA
    return ToldBlock(
        render(block),
        render_delta_brief(block) if is_delta else "",
        is_delta,
        is_lock=block.type == MemoryBlock.Type.WORLD_CHAPTER_LOCK,
    )
