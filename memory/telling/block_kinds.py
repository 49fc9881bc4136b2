"""The kinds of memory block that modes declare. The engine's own kinds are in memory.models."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from memory.fold.block_reading import Reader, block_readers
from memory.models import MemoryBlock
from memory.telling.rendering import BlockForm, Section, block_forms, prompts_of

ENGINE_BLOCK_KINDS = frozenset(MemoryBlock.Type.values)


@dataclass(frozen=True)
class BlockKind:
    """A kind of memory block that a mode declares.

    `read` takes a payload and returns its facts as a fold. Requests tell these facts to characters
    and narrators. `sections` takes a payload and returns its texts under labels, for pages and for
    models with a large window.
    """

    title: str
    read: Reader
    sections: Callable[[dict[str, Any]], list[Section]]


def declare_block_kind(name: str, kind: BlockKind) -> None:
    def title(block: MemoryBlock) -> str:
        return f"{kind.title}, {prompts_of(block).lower()}"

    block_readers[name] = kind.read
    block_forms[name] = BlockForm(lambda payload, roster: kind.sections(payload), title, title)
