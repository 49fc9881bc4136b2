"""Reads the name and the arguments of a tool call as they are meant.

Models write arguments as a string of JSON, spell names in their own way, and give one text where a
list is asked for. Where only one reading is possible it is taken. Anything else is left as it came,
and the check of the arguments then tells the model what is wrong.
"""

import json
import re
from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Any

from pydantic import BaseModel

from agents.prompting.forms.json_scanning import JsonScan, may_begin
from agents.prompting.forms.schemas import InvalidReply, Payload, argument_schema
from sessions.payloads import scrub_payload

# Models write the name and the arguments of a call under these keys.
NAME_KEYS = ("name", "tool_name", "function_name", "tool", "function", "action", "recipient_name")
ARGUMENT_KEYS = (
    "arguments", "parameters", "args", "input", "params", "kwargs", "action_input", "tool_input",
)  # fmt: skip

NO_ARGUMENTS = "its arguments are no JSON object"
# How often a text of JSON may stand within another one.
_MOST_ENCODINGS = 3
_PREFIX = re.compile(r"(?:(?:functions?|tools?|default_api|multi_tool_use)[.:/])+", re.IGNORECASE)
_SUFFIX = re.compile(r"(?::\d{1,4}|\.call)\Z")
_NUMBER = re.compile(r"[+-]?\d{1,15}(?:\.\d{1,15})?")


def folded(name: str) -> str:
    """Return the name without its case and the marks between its words."""
    return re.sub(r"[\W_]", "", name).casefold()


def name_meant(name: str, offered: Iterable[str]) -> str:
    """Return the offered name that is meant. If the name may mean none or several of the offered
    names, it is returned as it is, but without the prefix that models write before names."""
    names = list(offered)
    if name in names:
        return name
    bare = _SUFFIX.sub("", _PREFIX.sub("", name.strip(), count=1))
    if bare in names:
        return bare
    meant = [one for one in names if folded(one) == folded(bare)]
    return meant[0] if len(meant) == 1 else bare


def arguments_meant(said: object, arguments: type[BaseModel]) -> Payload:
    """Return the arguments that are meant, by their pydantic model. Characters that are no text are
    replaced. Raises InvalidReply if the arguments are no JSON object."""
    schema = argument_schema(arguments, says_optional=True)
    value = decoded(said)
    if value in (None, "", []):
        value = {}
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        raise InvalidReply(NO_ARGUMENTS)
    properties = schema["properties"]
    inner = [key for key in value if key in ARGUMENT_KEYS and key not in properties]
    if len(inner) == 1 and value.keys() <= {*inner, *NAME_KEYS, "type", "id"}:
        within = decoded(value[inner[0]])
        if isinstance(within, dict):
            value = within
    return _object_meant(scrub_payload(value), schema)


def decoded(said: object) -> Any:
    """Return the value in a text of JSON, which may be encoded several times. Any other value is
    returned as it is."""
    for _ in range(_MOST_ENCODINGS):
        if not isinstance(said, str):
            break
        try:
            said = json.loads(said.strip() or "{}", strict=False)
        except (ValueError, RecursionError):
            found = object_in(said)
            return said if found is None else found
    return said


def object_in(text: object) -> object:
    """Return the first object in a text that may have a fence or words around it. Return None if
    the text has no complete object."""
    if not isinstance(text, str):
        return None
    for found in re.finditer(r"\{", text):
        if may_begin(text[found.start() : found.start() + 400]):
            scan = JsonScan()
            scan.take(text, found.start(), is_over=True)
            return scan.value() if scan.is_closed else None
    return None


def _object_meant(value: Payload, schema: Mapping[str, Any]) -> Payload:
    properties: Mapping[str, Any] = schema["properties"]
    required = schema["required"]
    meant: Payload = {}
    for key, part in value.items():
        name = key if key in properties else name_meant(key, set(properties) - value.keys())
        if name in meant or name not in properties:
            name = key
        if name not in properties:
            if part is not None:
                meant[key] = part
        elif part is not None:
            meant[name] = _value_meant(part, properties[name])
        elif name in required and properties[name]["type"] != "array":
            meant[name] = None
    for name in required:
        # Instead of an empty list, a model leaves the key out or writes null.
        if name not in meant and properties[name]["type"] == "array":
            meant[name] = []
    return meant


def _value_meant(value: Any, schema: Mapping[str, Any]) -> Any:
    match schema["type"]:
        case "array":
            return _list_meant(value, schema["items"])
        case "object":
            inner = decoded(value)
            return _object_meant(inner, schema) if isinstance(inner, dict) else value
        case "string":
            return _text_meant(value, schema)
        case "integer" | "number" if isinstance(value, str):
            number = value.strip()
            return float(number) if _NUMBER.fullmatch(number) else value
        case _:
            return value


def _list_meant(value: Any, items: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and len(value) == 1 and str(value[0]).strip()[:1] == "[":
        value = value[0]
    if isinstance(value, str):
        inner = decoded(value) if value.strip()[:1] == "[" else value
        value = inner if isinstance(inner, list) else [value] if value.strip() else []
    elif not isinstance(value, list):
        value = [value]
    return [_value_meant(one, items) for one in value]


def _text_meant(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value):
        return str(value)
    choices = schema.get("enum", ())
    if isinstance(value, str) and choices and value not in choices:
        meant = [one for one in choices if folded(str(one)) == folded(value)]
        return meant[0] if len(meant) == 1 else value
    return value
