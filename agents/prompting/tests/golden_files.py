"""Prompts that are kept as files, so that a change of their wording shows in a review as a diff.

`UPDATE_GOLDEN=1` writes the files anew. Read the diff before you commit it.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from agents.providers.base import Message

FOLDER = Path(__file__).with_name("golden")


def check_golden(name: str, messages: Iterable[Message]) -> None:
    """Compare a prompt, message by message, with the file of this name."""
    text = "\n\n".join(f"[{one.role}]\n{one.content}" for one in messages) + "\n"
    path = FOLDER / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
