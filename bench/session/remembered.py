"""Reads the memory of a played chapter. Django has to be set up before."""

import uuid

from memory.fold.folding import block_of, fold
from memory.fold.present import present
from sessions.chapter.access import get_chapter


def facts_of(session_id: str) -> dict[str, list[str]]:
    """Return the canon and the open threads of the memory before the chapter's last prompt."""
    chapter = get_chapter(uuid.UUID(session_id))
    blocks = chapter.memory_blocks.filter(to_prompt_index__lt=chapter.prompt_index)
    now = present(
        fold(block_of(block) for block in blocks.order_by("created_at", "pk")), chapter.characters
    )
    facts = {"canon locks": now.canon, "open threads": now.open_threads}
    return {name: [fact.text for fact in told] for name, told in facts.items()}
