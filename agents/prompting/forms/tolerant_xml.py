"""Describes a shape as XML, and reads an object of this shape from the XML that a model writes.

The reader knows the shape, so the XML need not be well-formed. Tags that the shape does not have
are skipped. An element that is not closed ends at the next tag that cannot be inside it. Text
around the outermost element is ignored.

This module has its own scanner, because XML parsers refuse malformed XML. The scanner resolves no
entities but HTML's fixed ones, so a short text cannot expand into a long one.

A list is an element with an `item` for each entry. The reader also accepts a list without the outer
element, as one element for each entry.
"""

import html
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, get_args

from agents.prompting.forms.schemas import InvalidReply, Payload, Reading, Shape, json_schema_for
from agents.prompting.forms.tolerant_json import Check, count_lost_words

_ITEM = "item"
_TOKEN = re.compile(
    r"<!\[CDATA\[(?P<literal>.*?)(?:\]\]>|\Z)"
    r"|<!--.*?(?:-->|\Z)"
    r"|<[?!][^<>]*>"
    r"|<(?P<slash>/?)(?P<name>[A-Za-z_][\w.-]*+)[^<>]*?(?P<empty>/?)>",
    re.DOTALL,
)
_UNFINISHED_TAG = re.compile(r"</?[\w.-]*\s*\Z")
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}")


def root_tag(model: type[Shape]) -> str:
    """Return the name of the outermost tag, which in XML is the value of `memory_type`."""
    name: str = get_args(model.model_fields["memory_type"].annotation)[0]
    return name


def describe_as_xml(model: type[Shape]) -> str:
    """Return the shape as one line of XML, with "..." for each text and 0 for each number."""
    return describe_element(root_tag(model), json_schema_for(model))


def describe_element(name: str, schema: Mapping[str, Any]) -> str:
    match schema["type"]:
        case "object":
            inner = "".join(
                describe_element(key, part)
                for key, part in schema["properties"].items()
                if key != "memory_type"
            )
        case "array":
            inner = describe_element(_ITEM, schema["items"])
        case "string":
            inner = "..."
        case _:
            inner = "0"
    return f"<{name}>{inner}</{name}>"


def read_element(text: str, name: str, schema: Mapping[str, Any]) -> Payload:
    """Return the content of an element, read by its schema. Tags within the element that the schema
    does not have are ignored."""
    tree = _Tree(name, dict(schema))
    tree.read(f"<{name}>{text}</{name}>")
    return _object(tree.root)


def read_xml(text: str, model: type[Shape], check: Check, *, is_last_try: bool) -> Reading:
    """Return the payload in the reply's XML. Raises InvalidReply if `check` does not accept the
    payload.

    A reply that breaks off inside an entry is refused, but on the last try only this entry is left
    out. A list that the reply did not reach is not added.
    """
    root = root_tag(model)
    text = _UNFINISHED_TAG.sub("", text)
    found = len(re.findall(rf"<{root}\b", text))
    if found > 1:
        raise InvalidReply(f"the reply holds <{root}> {found} times; return it exactly once")
    if not found:
        if "<memory_type>" not in text:
            raise InvalidReply(f"the reply holds no <{root}>")
        text = f"<{root}>{text}"
    tree = _Tree(root, json_schema_for(model))
    tree.read(text)
    lost = count_lost_words(" ".join(tree.passed_over), {})
    if tree.is_cut and not is_last_try:
        raise InvalidReply("the reply breaks off before its end; return a shorter one, complete")
    if lost and not is_last_try:
        raise InvalidReply("some text stands outside the tags that were asked for")
    remark = f"the XML is malformed; {lost} words of it were left out" if lost else ""
    if tree.is_cut:
        tree.drop_cut_entry()
        remark = f"the XML breaks off; its last entry and {lost} words were left out"
    payload = {"memory_type": root, **_object(tree.root)} if found else _object(tree.root)
    check(payload)
    return Reading(payload, remark)


def read_unfinished_xml(text: str, model: type[Shape]) -> Payload:
    """Return the content of an unfinished reply in XML. The last text may be cut."""
    root = root_tag(model)
    tree = _Tree(root, json_schema_for(model))
    tree.read(_UNFINISHED_TAG.sub("", text))
    return _object(tree.root)


@dataclass(eq=False)
class _Element:
    name: str
    schema: dict[str, Any]
    texts: list[str] = field(default_factory=list)
    children: list["_Element"] = field(default_factory=list)
    # The names of the children. This set makes it unnecessary to compare a new tag with each child.
    names: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        return "".join(self.texts).strip()

    def schema_of(self, name: str) -> dict[str, Any] | None:
        """Return the schema of a tag inside this element, or None if the tag must be elsewhere."""
        properties: dict[str, Any] = self.schema.get("properties", {})
        if self.schema["type"] == "array":
            entry: dict[str, Any] = self.schema["items"]
            if name == _ITEM:
                return entry
            # The model may have left out the entry's own tag. The text then begins with one of the
            # tags that belong inside the entry.
            properties = entry.get("properties", {})
        elif name in self.names and properties[name]["type"] != "array":
            # The element already has this tag, so the new tag must belong to the next entry.
            return None
        known: dict[str, Any] | None = properties.get(name)
        return known


class _Tree:
    """The elements of one reply, as found by a scan of its tags."""

    def __init__(self, root: str, schema: dict[str, Any]) -> None:
        self.root = _Element(root, schema)
        self._open: list[_Element] = []
        self._is_done = False
        # The name of the open tag that the shape does not have, or "". Text inside such a tag is no
        # part of the reply.
        self._unknown = ""
        # The texts of the reply in places where the shape allows no text.
        self.passed_over: list[str] = []

    @property
    def is_cut(self) -> bool:
        return len(self._open) > 1

    def read(self, text: str) -> None:
        at = 0
        for token in _TOKEN.finditer(text):
            self._take_text(_unescape(text[at : token.start()]))
            at = token.end()
            if token["literal"] is not None:
                self._take_text(token["literal"])
            elif token["name"]:
                self._take_tag(token["name"], is_end=bool(token["slash"]))
                if token["empty"]:
                    self._take_tag(token["name"], is_end=True)
        self._take_text(_unescape(text[at:]))

    def drop_cut_entry(self) -> None:
        """Remove the list entry that was open at the end of the reply. If no list entry was open,
        remove the key that was open."""
        of_root = self._open[1]
        if of_root.schema["type"] != "array" or of_root.text:
            self.root.children.remove(of_root)
        elif len(self._open) > 2:
            of_root.children.remove(self._open[2])

    def _take_text(self, text: str) -> None:
        if not self._open:
            return
        element = self._open[-1]
        if element.schema["type"] == "array" and element.children:
            self.passed_over.append(text)
        elif element.schema["type"] != "object":
            element.texts.append(text)
        elif not self._unknown:
            self.passed_over.append(text)

    def _take_tag(self, name: str, *, is_end: bool) -> None:
        if is_end:
            self._close(name)
        elif not self._open:
            if name == self.root.name and not self._is_done:
                self._open.append(self.root)
        else:
            self._open_element(name)

    def _open_element(self, name: str) -> None:
        for depth in range(len(self._open) - 1, -1, -1):
            parent = self._open[depth]
            schema = parent.schema_of(name)
            if schema is not None:
                del self._open[depth + 1 :]
                if parent.schema["type"] == "array" and name != _ITEM:
                    parent = self._push(parent, _Element(_ITEM, parent.schema["items"]))
                self._push(parent, _Element(name, schema))
                return
        parent = self._open[-1]
        if parent.schema["type"] == "array":
            # The model gave the tag of the entry another name than `item`, such as <theme>.
            self._push(parent, _Element(name, parent.schema["items"]))
        elif parent.schema["type"] == "object" and not self._unknown:
            self._unknown = name

    def _push(self, parent: _Element, element: _Element) -> _Element:
        if parent.texts:
            # The parent's text seemed to be the only entry of a list. But here another entry
            # follows, so the text was in a wrong place.
            self.passed_over += parent.texts
            parent.texts = []
        parent.children.append(element)
        parent.names.add(element.name)
        self._open.append(element)
        self._unknown = ""
        return element

    def _close(self, name: str) -> None:
        if name == self._unknown:
            self._unknown = ""
        names = [element.name for element in self._open]
        if name in names:
            last = len(names) - 1 - names[::-1].index(name)
            del self._open[last:]
            self._is_done = not self._open


def _unescape(text: str) -> str:
    """Return the text with its character references resolved. If the number in a reference is too
    long, return the text unchanged."""
    try:
        return html.unescape(text)
    except ValueError:
        return text


def _object(element: _Element) -> Payload:
    payload: Payload = {}
    for child in element.children:
        value = _value(child)
        if isinstance(value, list):
            payload.setdefault(child.name, []).extend(value)
        else:
            payload[child.name] = value
    return payload


def _value(element: _Element) -> Any:
    match element.schema["type"]:
        case "object":
            return _object(element)
        case "array":
            return _entries(element)
        case "string":
            return element.text
    if _WHOLE_NUMBER.fullmatch(element.text):
        return int(element.text)
    return element.text or None


def _entries(element: _Element) -> list[Any]:
    if not element.children:
        return [element.text] if element.text else []
    return [_value(child) for child in element.children if not _is_blank(child)]


def _is_blank(element: _Element) -> bool:
    """Return whether the element and all its children are empty. A model writes such an element if
    there is nothing to say."""
    return not element.text and all(map(_is_blank, element.children))
