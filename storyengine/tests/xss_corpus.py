"""Hostile texts. If a page did not escape such a text, the text would run as a script, load a file
or take over the page."""

import json
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from sessions.language.text import clean_text
from sessions.limits import AGENT_NAME_CHAR_LIMIT, PRONOUNS_CHAR_LIMIT, TAB1_CHAR_LIMIT
from testing.model_replies import ModelReplies

_FILE = Path(__file__).with_name("xss_payloads.txt")
_WRITTEN = str.maketrans({"␤": "\n", "␉": "\t", "␀": "\x00", "␠": "\x0c"})
# The sizes of the pieces in which a reply is streamed. They are so small that every tag is cut.
_PIECES = (1, 2, 9, 1, 14, 3, 5, 1, 17, 2)
# The keys in a chapter's file whose values must stay as they are, and the keys whose values are a
# single line.
_FIXED = frozenset(
    {"format", "mode", "agent", "seed", "state", "role", "type", "kind", "status", "memory_type"}
    | {"reply_length"}
)
_LINES = frozenset({"title", "name", "public_text", "starter", "ended_before"})
# The largest number of entries in a list of memory, and the greatest length of an entry.
# agents/prompting/forms/schemas.py has these limits.
_ENTRIES, _ENTRY_CHARACTERS = 14, 800


def read_payloads() -> list[str]:
    lines = _FILE.read_text(encoding="utf-8").splitlines()
    return [line.translate(_WRITTEN) for line in lines if line and not line.startswith("# ")]


def typed(payload: str) -> str:
    """Return the payload without the characters that the engine refuses in a person's words."""
    kept = payload.replace("\x00", "").replace("\x0c", " ")
    return clean_text(kept, limit=len(kept), label="A payload")


def bundles(payloads: Sequence[str], size: int) -> list[str]:
    """Join the payloads in order into texts of at most `size` characters. Leave out payloads that
    are longer."""
    texts = [""]
    for payload in payloads:
        if len(payload) > size:
            continue
        if len(texts[-1]) + len(payload) + 1 > size:
            texts.append("")
        texts[-1] = f"{texts[-1]}\n{payload}".strip("\n")
    return texts


def awkward_pieces(text: str) -> list[str]:
    """Return the text in pieces that end in the middle of tags, names and entities."""
    return list(_cut(text))


def _cut(text: str) -> Iterator[str]:
    sizes, at = cycle(_PIECES), 0
    while at < len(text):
        size = next(sizes)
        yield text[at : at + size]
        at += size


def with_payloads(exported: dict[str, Any], payloads: Sequence[str]) -> dict[str, Any]:
    """Return the file with payloads in place of each text that a person or a model has written.

    Memory also gets payloads as keys.
    """
    texts = [typed(one) for one in payloads]
    words = cycle(bundles(texts, TAB1_CHAR_LIMIT))
    lines, short_lines = (
        cycle([" ".join(one.split()) for one in texts if len(one) <= limit])
        for limit in (AGENT_NAME_CHAR_LIMIT, PRONOUNS_CHAR_LIMIT)
    )

    def filled(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            changed = {name: filled(one, name) for name, one in value.items()}
            return changed | {next(lines): next(words)} if key == "json_payload" else changed
        if isinstance(value, list):
            return [filled(one, key) for one in value]
        if not isinstance(value, str) or key in _FIXED or key.endswith("_at"):
            return value
        if key == "pronouns":
            return next(short_lines)
        return next(lines) if key in _LINES else next(words)

    changed: dict[str, Any] = filled(exported)
    for turn in changed["chapter"]["turns"]:
        for attempt in turn["attempts"]:
            attempt["events"][0]["text"] = attempt["words"]
    return changed


class HostileReplies(ModelReplies):
    """A model whose answers consist of payloads, in the form that each request asks for."""

    def __init__(self, payloads: Sequence[str]) -> None:
        super().__init__(None, 1)
        self._whole = "\n\n".join(payloads)
        self._said = cycle(bundles(payloads, 3_000))
        # Memory refuses the same characters that the engine refuses in a person's words.
        self._entries = bundles([typed(one) for one in payloads], _ENTRY_CHARACTERS)

    def text_for(self, agent: int, messages: Sequence[str]) -> str:
        if agent in (0, 8):
            return json.dumps(self._filled(json.loads(super().text_for(agent, messages))))
        return self._whole if agent == 9 else next(self._said)

    def say_everything(self) -> None:
        """Put all payloads into each reply that follows."""
        self._said = cycle([self._whole])

    def _filled(self, payload: dict[str, Any]) -> dict[str, Any]:
        first, rest = self._entries[:_ENTRIES], self._entries[_ENTRIES:]
        payload["canon_locks"] = first
        if "world" in payload:
            payload["world"] |= {"key_lore": rest, "genre": first[0], "themes": first}
            payload["chapter"] |= {"premise": first[1], "open_mysteries": rest}
            return payload
        return payload | {
            "contradictions_or_questions": [
                f"old: {first[0][:300]} | new: {first[1][:300]}",
                *first[2:8],
            ],
            "location_updates": {"where": first[3], "notable_environment_changes": rest},
            "state_changes": [
                {"key": text[:200], "before": text[:200], "after": text[:200], "notes": text}
                for text in first
            ],
            "unresolved_threads": [
                {"thread": text, "stakes": text, "next_likely_trigger": text} for text in rest
            ],
        }
