"""Gathers the tool calls of one answer. A server sends them in fragments."""

import json
import re
from dataclasses import dataclass, field

from agents.llm.providers.base import ToolCall
from sessions.language.text import with_replacements

# At most this many calls of one answer are run. If the answer has more, one further call is kept,
# and its problem tells the model that the rest was not run.
MOST_CALLS = 16
# The arguments of one call have at most this many characters.
MOST_ARGUMENTS = 20_000
LONGEST_NAME = 64
_LONGEST_ID = 100
_ID = re.compile(rf"[\w-]{{1,{_LONGEST_ID}}}", re.ASCII)
_NOT_IN_A_NAME = re.compile(r"[^\w-]", re.ASCII)

TOO_MANY = f"Only the first {MOST_CALLS} calls of an answer are run; this one was not."
TOO_LONG = f"Its arguments have more than {MOST_ARGUMENTS:,} characters, so it was not run."


# Two calls are two, although nothing of them may differ.
@dataclass(eq=False)
class _Fragments:
    call_id: str
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    length: int = 0


class GatheredCalls:
    """The tool calls of one answer. All data of the server is checked.

    `take` gets the field `tool_calls` of each piece of the answer. The fragments of one call have
    the same index. If a server sends no index, or the same index for all calls, the ids of the
    calls tell them apart. A fragment without index and id begins a call if it names a tool, and
    otherwise continues the latest call.
    """

    def __init__(self) -> None:
        self._calls: list[_Fragments] = []
        self._by_key: dict[object, _Fragments] = {}
        # The call of the latest fragment. None at first, and for a call beyond MOST_CALLS.
        self._latest: _Fragments | None = None
        self._has_too_many = False

    def take(self, fragments: object) -> int:
        """Add fragments to their calls, and return how many characters all fragments have, even
        those that are not kept."""
        if not isinstance(fragments, list):
            return 0
        return sum(self._take(one) for one in fragments if isinstance(one, dict))

    @property
    def has_any(self) -> bool:
        return bool(self._calls)

    def gathered(self) -> list[ToolCall]:
        calls = [_as_call(number, one) for number, one in enumerate(self._calls)]
        # If two calls have the same id, all calls get new ids to tell their results apart.
        ids = {call.call_id for call in calls}
        if len(ids) < len(calls):
            calls = [
                ToolCall(own_id(number), call.name, call.arguments, call.problem)
                for number, call in enumerate(calls)
            ]
        if self._has_too_many:
            calls.append(ToolCall(own_id(MOST_CALLS), "too_many", "{}", TOO_MANY))
        return calls

    def _take(self, fragment: dict[str, object]) -> int:
        function = fragment.get("function")
        said = function if isinstance(function, dict) else {}
        call_id, name = _text(fragment.get("id")), _text(said.get("name"))
        arguments = arguments_text(said.get("arguments"))
        call = self._latest = self._call_of(fragment.get("index"), call_id[:_LONGEST_ID], name)
        if call is not None:
            call.name = call.name or name[: LONGEST_NAME + 1]
            if call.length <= MOST_ARGUMENTS:
                call.arguments.append(arguments)
            call.length += len(arguments)
        return len(call_id) + len(name) + len(arguments)

    def _call_of(self, index: object, call_id: str, name: str) -> _Fragments | None:
        """Return the call that a fragment belongs to, or None if the call exceeds MOST_CALLS."""
        key = index if type(index) is int else call_id or None
        begins = key is None and bool(name)
        known = None if begins else self._by_key.get(key, self._latest if key is None else None)
        if known is None or (call_id and known.call_id not in ("", call_id)):
            if len(self._calls) == MOST_CALLS:
                self._has_too_many = True
                return None
            known = _Fragments(call_id)
            self._calls.append(known)
        if key is not None:
            self._by_key[key] = known
        known.call_id = known.call_id or call_id
        return known


def _as_call(number: int, fragments: _Fragments) -> ToolCall:
    call_id = fragments.call_id if _ID.fullmatch(fragments.call_id) else own_id(number)
    name = _NOT_IN_A_NAME.sub("_", fragments.name[:LONGEST_NAME]) or "unnamed"
    if fragments.length > MOST_ARGUMENTS:
        return ToolCall(call_id, name, "{}", TOO_LONG)
    return ToolCall(call_id, name, with_replacements("".join(fragments.arguments)))


def own_id(number: int) -> str:
    # The id has nine letters and digits, because Mistral accepts no other ids.
    return f"call{number:05d}"


def arguments_text(value: object) -> str:
    """Return arguments as text, even if a server or model sent an object instead."""
    if isinstance(value, dict):
        try:
            return json.dumps(value)
        except RecursionError:
            return "nested too deeply"
    return _text(value)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
