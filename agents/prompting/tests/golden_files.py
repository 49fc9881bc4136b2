"""Compares prompts with golden files, so that a review shows each change of their wording as a
diff.

`UPDATE_GOLDEN=1` writes the golden files again. Read the diff before you commit it.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from agents.llm.providers.base import Message

FOLDER = Path(__file__).with_name("golden")


def check_golden(name: str, messages: Iterable[Message]) -> None:
    """Check that a prompt equals the golden file of this name."""
    text = "\n\n".join(f"[{one.role}]\n{one.content}" for one in messages) + "\n"
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
