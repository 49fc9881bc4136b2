"""Complete payloads of agents 0 and 8, and functions that change payloads or write them as text."""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Literal
from xml.sax.saxutils import escape

from hypothesis import strategies as st

from agents.prompting.forms.schemas import (
    InvalidReply,
    Payload,
    Reading,
    Shape,
    TurnDelta,
    WorldChapterLock,
    check_payload,
    json_schema_for,
)

LOCK: dict[str, Any] = {
    "memory_type": "world_chapter_lock",
    "world": {
        "genre": "ghost story",
        "tone": "quiet dread",
        "themes": ["memory"],
        "rules_of_reality": ["the dead knock three times"],
        "factions_or_powers": [],
        "key_lore": [],
        "safety_or_boundaries": [],
    },
    "chapter": {
        "premise": "the light went out",
        "location": "quay",
        "time": "night",
        "environment": ["ice"],
        "active_threats": [],
        "open_mysteries": [],
        "chapter_goals": [],
    },
    "agents": [
        {"slot": 1, "color": "red", "name": "Mara Venn"},
        {"slot": 2, "color": "orange", "name": "Agent Orange"},
    ],
    "canon_locks": ["the keeper is missing"],
    "assumptions": [],
}
DELTA: dict[str, Any] = {
    "memory_type": "turn_delta",
    "range": {"from_marker": "1", "to_marker": "7", "prompt_count_in_chunk": 7},
    "location_updates": {"where": "the ferry", "notable_environment_changes": [], "at": []},
    "major_events": [
        {
            "event": "a knock",
            "cause": "",
            "effect": "fear",
            "participants": ["Mara Venn"],
            "at": [2, 3],
        }
    ],
    "character_actions": [
        {
            "agent_slot": 1,
            "name": "Mara Venn",
            "did": "knelt",
            "intent": "listen",
            "result": "",
            "at": [3],
        }
    ],
    "state_changes": [{"key": "lamp", "before": "lit", "after": "dark", "notes": "", "at": [1]}],
    "relationship_shifts": [
        {"between": ["Mara", "Tom"], "change": "doubt", "evidence": "", "at": [7]}
    ],
    "items_clues_discovered": [
        {"thing": "list", "who_found": "Tom", "why_it_matters": "names", "at": []}
    ],
    "unresolved_threads": [
        {"thread": "who knocks", "stakes": "", "next_likely_trigger": "", "at": [2]}
    ],
    "canon_locks": [],
    "canon_locks_at": [],
    "contradictions_or_questions_at": [],
    # This list is the last one, because tests cut a reply within it.
    "contradictions_or_questions": [],
}
# The random texts have no characters of these Unicode categories: control characters, surrogates,
# and separators of lines and paragraphs.
_NO_TEXT: tuple[Literal["Cc", "Cs", "Zl", "Zp"], ...] = ("Cc", "Cs", "Zl", "Zp")
SHAPES = [(WorldChapterLock, LOCK), (TurnDelta, DELTA)]


def changed(payload: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of the payload with another value at a dotted path.

    If the path ends in "!", the copy has no key at the path.
    """
    copy = deepcopy(payload)
    *parents, last = path.split(".")
    node: Any = copy
    for part in parents:
        node = node[int(part)] if part.isdigit() else node[part]
    if last.endswith("!"):
        del node[last[:-1]]
    else:
        node[last] = value
    return copy


def payloads_of(shape: type[Shape], *, alphabet: str = "") -> st.SearchStrategy[dict[str, Any]]:
    """Return a strategy for complete payloads of this shape, with random texts as their values."""
    letters = st.sampled_from(alphabet) if alphabet else st.characters(exclude_categories=_NO_TEXT)
    texts = st.text(letters, min_size=1, max_size=20).map(str.strip).filter(bool)
    return _values(json_schema_for(shape), texts)


def _values(schema: dict[str, Any], texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    match schema["type"]:
        case "object":
            parts = {key: _values(part, texts) for key, part in schema["properties"].items()}
            return st.fixed_dictionaries(parts)
        case "array":
            return st.lists(_values(schema["items"], texts), min_size=1, max_size=2)
        case "integer":
            return st.integers(0, 9)
        case _:
            return st.sampled_from(schema["enum"]) if "enum" in schema else texts


def deeply_nested(*pairs: tuple[str, str]) -> st.SearchStrategy[str]:
    """Return a strategy for texts in which opening and closing signs nest up to 4,000 levels deep.

    `pairs` are the signs that belong together. A text may have more or fewer closing than opening
    signs.
    """

    def write(chosen: Sequence[tuple[str, str]], depth: int, inside: str, more: int) -> str:
        opening = "".join(begin for begin, _ in chosen)
        closing = "".join(end for _, end in reversed(chosen))
        return opening * depth + inside + closing * max(depth + more, 0)

    return st.builds(
        write,
        st.lists(st.sampled_from(pairs), min_size=1, max_size=3),
        st.sampled_from([1, 5, 19, 40, 300, 500, 990, 4_000]),
        st.sampled_from(["", "1", '"a"', "a", ","]),
        st.sampled_from([0, 0, 0, -1, 1, -10_000]),
    )


def assert_read_or_refused(read: Callable[[], Reading]) -> None:
    """Check that a text is refused, or is read as a turn delta that memory accepts."""
    try:
        payload = read().payload
    except InvalidReply:
        return
    check_payload(payload, TurnDelta)


def assert_says_no_more(cut: Payload, whole: Payload) -> None:
    """Check that a payload from a cut text equals the whole payload, except that its last entry, or
    the end of a list in this entry, may be missing."""
    *earlier, last = whole
    assert list(cut) in (list(whole), earlier)
    assert all(cut[key] == whole[key] for key in earlier)
    if last in cut:
        said = whole[last]
        assert cut[last] == (said[: len(cut[last])] if isinstance(said, list) else said)


def as_xml(payload: dict[str, Any]) -> str:
    """Write the payload as XML, in the form that the engine asks of models."""
    parts = {key: value for key, value in payload.items() if key != "memory_type"}
    return _element(payload["memory_type"], parts)


def _element(name: str, value: Any) -> str:
    if isinstance(value, dict):
        inner = "\n".join(_element(key, part) for key, part in value.items())
    elif isinstance(value, list):
        inner = "".join(_element("item", entry) for entry in value)
    else:
        inner = escape(str(value))
    return f"<{name}>{inner}</{name}>"
