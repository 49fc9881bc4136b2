"""Says what an unfinished value of JSON has so far: a call, or the text of an answer."""

from dataclasses import dataclass
from typing import Any

from agents.prompting.forms.call_shapes import is_asked_key
from agents.prompting.forms.json_scanning import JsonScan
from agents.prompting.forms.tool_arguments import ARGUMENT_KEYS, NAME_KEYS


@dataclass(frozen=True)
class CallSoFar:
    """A call that is being written: its name, and its arguments as far as they can be read. The
    last text in them may be cut."""

    name: str
    arguments: dict[str, Any]


def call_so_far(name: str, said: Any) -> CallSoFar | None:
    """Return the call of which this much was read: its name with its arguments, which may be the
    unfinished text of them, or an object that has both, alone or as the last one of a list."""
    if isinstance(said, str):
        scan = JsonScan()
        scan.take(said, 0)
        said = scan.value_so_far()
    if name:
        return CallSoFar(name, said if isinstance(said, dict) else {})
    value = said
    for _ in range(4):
        if isinstance(value, list):
            value = value[-1] if value else None
        if not isinstance(value, dict):
            return None
        named = next((said for key in NAME_KEYS if isinstance(said := value.get(key), str)), "")
        if named:
            arguments = next((value[key] for key in ARGUMENT_KEYS if key in value), None)
            return CallSoFar(named, arguments if isinstance(arguments, dict) else {})
        value = next(
            (said for key, said in value.items() if is_asked_key(key) and key != "text"),
            value.get("function"),
        )
    return None


def text_so_far(value: Any) -> str:
    """Return the text of an unfinished object of the form that was asked for."""
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(text_so_far, value)))
    if not isinstance(value, dict) or not value or not is_asked_key(next(iter(value))):
        return ""
    text = value.get("text")
    return text if isinstance(text, str) else ""
