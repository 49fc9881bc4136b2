"""Finds the tool calls in a model's answer, in any of the known shapes.

A value without one of these shapes is no call, but words of the story. A call has the name of an
offered tool, or it has exactly a name and arguments.
"""

import ast
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from agents.llm.providers.answers.tool_calls import (
    LONGEST_NAME,
    MOST_ARGUMENTS,
    TOO_LONG,
    arguments_text,
)
from agents.llm.providers.base import ToolCall
from agents.prompting.escaping import CALLS_KEY
from agents.prompting.forms.tolerant_xml import read_element
from agents.prompting.forms.tool_arguments import (
    ARGUMENT_KEYS,
    NAME_KEYS,
    decoded,
    folded,
    name_meant,
)

_CALLS = {folded(CALLS_KEY), "toolcalls", "functioncalls", "toolcall", "functioncall", "call"}
_TEXTS = ("text", "content", "response", "narration", "story", "reply", "message", "answer")
_ARGUMENTS = {folded(key) for key in ARGUMENT_KEYS}
_NAMES = {folded(key) for key in NAME_KEYS}
# A call whose name is not the name of a tool has its arguments under these keys. Other words for
# arguments may be keys of any object.
_PLAIN_ARGUMENTS = {"arguments", "parameters"}
_BESIDE_A_CALL = {"id", "type", "index", "callid", "toolcallid", "role"}
_IDENTIFIER = re.compile(r"[A-Za-z][\w.:/-]{0,99}")
_CODE_NAME = re.compile(r"\w*(?:[a-z][A-Z]|_|\.)\w*")
# The errors that the parsers of Python and of JSON raise for text that they cannot read.
_NO_CODE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)
# How many objects or lists may be wrapped around a call.
_MOST_WRAPPERS = 3
_PARAMETER = re.compile(
    r"<(?:\w+:|[|\uff5c]DSML[|\uff5c])?(?:parameter|param|arg)(?:\s+name\s*=\s*|\s*=\s*)[\"']?(?P<name>[^\"'<>\s]+)[\"']?[^<>]*>"
    r"(?P<value>.*?)(?:</(?:\w+:|[|\uff5c]DSML[|\uff5c])?(?:parameter|param|arg)>"
    r"|(?=<(?:\w+:)?param)|\Z)"
    r"|<(?:longcat_)?arg_key>(?P<key>[^<>]*)</(?:longcat_)?arg_key>\s*"
    r"<(?:longcat_)?arg_value>(?P<said>.*?)(?:</(?:longcat_)?arg_value>|\Z)",
    re.DOTALL,
)

_NAME_ELEMENT = re.compile(r"<((?:tool_)?name)>\s*(?P<name>[\w.:/-]{1,100})\s*</\1>\s*")
_ARGUMENTS_ELEMENT = re.compile(
    r"<(arguments|parameters|args|input)>(?P<inside>.*?)(?:</\1>|\Z)", re.DOTALL
)
_MARKED_TEXT = re.compile(r"(?:<escape>|<\|\"\|>)(.*?)(?:<escape>|<\|\"\|>)", re.DOTALL)
_ATTRIBUTE = re.compile(r"([\w-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")

Parameters = Mapping[str, Mapping[str, Any]]


@dataclass
class Said:
    """The content of a value: the calls, and the text of an answer in the form that was asked for.
    The text is None if the value has no place for a text."""

    calls: list[ToolCall] = field(default_factory=list)
    text: str | None = None
    is_whole: bool = True


def said_in(value: object, tools: Parameters, *, may_be_text: bool, depth: int = 0) -> Said | None:
    """Return the calls in a value of JSON, or None if it is no call. If `may_be_text` is True, an
    object with a text alone is an answer without calls."""
    if depth > _MOST_WRAPPERS:
        return None
    inner = [value] if isinstance(value, dict) else value if isinstance(value, list) else []
    if isinstance(value, list):
        found = [
            one
            for each in inner
            if (
                one := said_in(each, tools, may_be_text=may_be_text or bool(depth), depth=depth + 1)
            )
        ]
        texts = [one.text for one in found if one.text is not None]
        calls = [call for one in found for call in one.calls]
        is_call = len(found) == len(inner) and (calls or (texts and may_be_text))
        return Said(calls, "\n\n".join(texts) if texts else None) if is_call else None
    if not isinstance(value, dict):
        return None
    return (
        _answer_in(value, tools, may_be_text=may_be_text)
        or _call_in(value, tools)
        or _by_name(value, tools)
        or _wrapped(value, tools, may_be_text=may_be_text, depth=depth)
    )


def call_of(name: str, arguments: object, tools: Parameters) -> ToolCall:
    text = arguments_text(arguments) if arguments is not None else "{}"
    named = name_meant(name, tools)[:LONGEST_NAME]
    if len(text) > MOST_ARGUMENTS:
        return ToolCall("", named, "{}", TOO_LONG)
    return ToolCall("", named, text)


def call_in_element(name: str, inside: str, tools: Parameters) -> ToolCall:
    """Return the call in an element with this content."""
    meant, inside = name_meant(name, tools), inside.strip()
    if inside.startswith("{") or len(inside) > MOST_ARGUMENTS:
        return call_of(meant, inside, tools)
    arguments: dict[str, str] = {}
    for one in _PARAMETER.finditer(inside):
        said = one["value"] if one["name"] else one["said"]
        arguments[one["name"] or one["key"].strip()] = html.unescape(said.strip("\n"))
    schema = tools.get(meant)
    if arguments or not inside:
        return call_of(meant, arguments, tools)
    return call_of(meant, read_element(inside, meant, schema) if schema else inside, tools)


def with_quotes(braces: str) -> str:
    """Return as JSON the arguments whose texts stand between marks, as the models Gemma write
    them."""
    return _MARKED_TEXT.sub(lambda text: json.dumps(text[1]), braces)


def call_in_attributes(name: str, tag: str, tools: Parameters) -> ToolCall:
    """Return the call of an element that has nothing inside, and may have attributes."""
    said = {key: html.unescape(one or two) for key, one, two in _ATTRIBUTE.findall(tag)}
    said = {key: value for key, value in said.items() if key != "name"}
    if len(said) == 1 and folded(next(iter(said))) in _ARGUMENTS:
        return call_of(name, next(iter(said.values())), tools)
    return call_of(name, said, tools)


def calls_in_elements(inside: str, tools: Parameters) -> list[ToolCall]:
    """Return the call that is written as one element for the name and one for the arguments."""
    named = _NAME_ELEMENT.search(inside)
    if not named:
        return []
    found = _ARGUMENTS_ELEMENT.search(inside, named.end())
    return [call_in_element(named["name"], found["inside"] if found else "", tools)]


def calls_in_code(code: str, tools: Parameters) -> list[ToolCall]:
    """Return the calls in lines of Python, such as `go(to="the quay")`."""
    calls = []
    try:
        for node in ast.walk(ast.parse(code.strip())):
            if isinstance(node, ast.Call):
                name = name_meant(ast.unparse(node.func), tools)
                if name in tools or not tools:
                    schema = tools.get(name, {"properties": {}})
                    calls.append(call_of(name, _keywords(node, schema), tools))
    except _NO_CODE:
        return []
    return calls


def may_become_call(value: object, tools: Parameters) -> bool:
    """Return whether an object that breaks off may have become a call."""
    if isinstance(value, list):
        return bool(value) and may_become_call(value[-1], tools)
    if not isinstance(value, dict) or not value:
        return False
    first, said = next(iter(value.items()))
    key = folded(str(first))
    if key in _NAMES and isinstance(said, str):
        if not tools:
            return len(value) == 1 and bool(_CODE_NAME.fullmatch(said))
        names = [folded(name) for name in tools]
        return bool(said) and any(
            name.startswith(folded(name_meant(said, tools))) for name in names
        )
    if key in _CALLS or (key == "type" and said == "function"):
        return True
    return bool(tools) and isinstance(said, dict) and key in map(folded, tools)


def is_asked_key(key: str) -> bool:
    return key == _TEXTS[0] or folded(key) in _CALLS


def _answer_in(value: Mapping[str, Any], tools: Parameters, *, may_be_text: bool) -> Said | None:
    """Return the text and the calls of an answer in the form that was asked for."""
    keys = {folded(key): key for key in value}
    text = next((value[key] for key in _TEXTS if isinstance(value.get(key), str)), None)
    found = next((keys[key] for key in keys if key in _CALLS), None)
    if found is None:
        is_answer = may_be_text and bool(tools) and "text" in value
        return Said(text=text or "", is_whole=text is not None) if is_answer else None
    calls = decoded(value[found])
    if calls is None or calls == {}:
        calls = []
    entries = calls if isinstance(calls, list) else [calls]
    is_call = any(isinstance(one, dict) and _call_in(one, tools) for one in entries)
    has_text = "text" in value or text is not None
    if not (is_call or (has_text and (tools or all(isinstance(one, dict) for one in entries)))):
        return None
    if "text" in value and not isinstance(value["text"], str | None):
        return Said(is_whole=False)
    is_whole = isinstance(calls, list | dict)
    return Said([_certain(one, tools) for one in entries] if is_whole else [], text, is_whole)


def _certain(entry: object, tools: Parameters) -> ToolCall:
    """Return the call in an entry of a list of calls, even if the entry names no offered tool."""
    if not isinstance(entry, dict):
        return ToolCall("", "", "{}")
    if found := _call_in(entry, tools) or _by_name(entry, tools):
        return found.calls[0]
    function = entry.get("function")
    entry = function if isinstance(function, dict) else entry
    name = next((said for key in NAME_KEYS if isinstance(said := entry.get(key), str)), "")
    arguments = next((entry[key] for key in entry if folded(key) in _ARGUMENTS), None)
    return call_of(name, arguments, tools)


def _call_in(value: Mapping[str, Any], tools: Parameters) -> Said | None:
    function = value.get("function")
    if isinstance(function, dict):
        return _call_in(function, tools)
    name = next((said for key in NAME_KEYS if isinstance(said := value.get(key), str)), "")
    if not _IDENTIFIER.fullmatch(name):
        return None
    at = next((key for key in value if folded(key) in _ARGUMENTS), None)
    rest = {key for key in value if key != at and folded(key) not in _NAMES | _BESIDE_A_CALL}
    meant = name_meant(name, tools)
    if meant in tools:
        known = {folded(key) for key in tools[meant]["properties"]}
        if at is not None and not rest:
            return Said([call_of(meant, value[at], tools)])
        if at is None and {folded(key) for key in rest} <= known:
            return Said([call_of(meant, {key: value[key] for key in rest}, tools)])
        return None
    if at is None or rest:
        return None
    is_call = folded(at) in _PLAIN_ARGUMENTS or bool(_CODE_NAME.fullmatch(name))
    if is_call and isinstance(decoded(value[at]), dict | None):
        return Said([call_of(name, value[at], tools)])
    return None


def _by_name(value: Mapping[str, Any], tools: Parameters) -> Said | None:
    """Return the calls of an object whose keys are the names of tools."""
    names = [name_meant(key, tools) for key in value]
    if not value or not all(
        name in tools and isinstance(said, dict)
        for name, said in zip(names, value.values(), strict=True)
    ):
        return None
    return Said(
        [call_of(name, said, tools) for name, said in zip(names, value.values(), strict=True)]
    )


def _wrapped(
    value: Mapping[str, Any], tools: Parameters, *, may_be_text: bool, depth: int
) -> Said | None:
    """Return the content of the only entry of an object."""
    if len(value) != 1:
        return None
    [inner] = value.values()
    if not isinstance(inner, dict | list):
        return None
    return said_in(inner, tools, may_be_text=may_be_text, depth=depth + 1)


def _keywords(node: ast.Call, schema: Mapping[str, Any]) -> dict[str, Any]:
    names: Sequence[str] = list(schema["properties"])
    given = [
        *zip(names, node.args, strict=False),
        *((one.arg, one.value) for one in node.keywords),
    ]
    return {name: _value_of(value) for name, value in given if name is not None}


def _value_of(node: ast.expr) -> Any:
    """Return a value of Python as a value of JSON, or as its source text if JSON has no such
    value."""
    try:
        return json.loads(json.dumps(ast.literal_eval(node), default=str))
    except _NO_CODE:
        return ast.unparse(node)


def text_so_far(value: Any) -> str:
    """Return the text of an unfinished object of the form that was asked for."""
    if isinstance(value, list):
        return "\n\n".join(filter(None, map(text_so_far, value)))
    if not isinstance(value, dict) or not value or not is_asked_key(next(iter(value))):
        return ""
    text = value.get("text")
    return text if isinstance(text, str) else ""
