"""Gives requests the text of the lock."""

import uuid
from functools import lru_cache

from memory.models import MemoryBlock
from memory.telling.rendering import render
from sessions.models import Session


def told_lock(chapter: Session) -> str:
    """Return the text of the lock, or "" if the chapter has no lock yet."""
    locks = chapter.memory_blocks.filter(type=MemoryBlock.Type.WORLD_CHAPTER_LOCK)
    block_id = locks.values_list("pk", flat=True).first()
    return _render(block_id) if block_id else ""


@lru_cache(maxsize=2_048)
def _render(block_id: uuid.UUID) -> str:
    """Return a block's text. The text is cached, because blocks never change and every request
    needs them."""
    return render(MemoryBlock.objects.get(pk=block_id))
