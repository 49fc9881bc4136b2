"""Chooses the form of tool calls for a model, and describes the form to the model."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agents.llm.facts.model_facts import ModelFacts
from agents.prompting.escaping import CALL_ELEMENT, CALLS_KEY
from agents.prompting.forms.object_forms import form_for
from agents.prompting.forms.schemas import without_lengths
from agents.prompting.forms.tolerant_xml import describe_element
from agents.prompting.layers import Layer, Piece
from agents.prompting.prompt_files import render_prompt
from agents.prompting.tools import Tool, ToolForm


def tool_form_for(facts: ModelFacts, preferred: ToolForm) -> ToolForm:
    """Return the form that a model should use for tool calls: the form that the agent prefers, if
    the model can write it.

    Otherwise return JSON or XML, whichever the model writes better.
    """
    if preferred == "native" and facts.tools:
        return "native"
    if preferred == "xml" and facts.xml_reliability != "low":
        return "xml"
    return form_for(facts)


# The name of the layer that describes the tools.
TOOLS = "TOOLS"


def tools_layer(form: ToolForm, tools: Sequence[Tool]) -> Layer:
    """Return the layer that explains the tools to the model. The layer is empty if the server
    explains the tools."""
    if form == "native":
        return Layer(TOOLS, (), role="system")
    describe = _as_json if form == "json" else _as_xml
    listed = "\n".join(f"- {tool.name}: {tool.description} {describe(tool)}" for tool in tools)
    text = render_prompt(f"tools_{form}", tools=listed)
    return Layer(TOOLS, (Piece(text, has_elements=True, has_calls=True),), role="system")


def answer_schema(tools: Sequence[Tool]) -> dict[str, Any]:
    """Return the schema of a JSON object with a text and tool calls, or with a text alone if there
    are no tools. The text comes first, because it is shown while the answer arrives."""
    if not tools:
        return _object(text={"type": "string"})
    call = [
        _object(
            name={"type": "string", "enum": [tool.name]},
            arguments=without_lengths(tool.schema.parameters),
        )
        for tool in tools
    ]
    calls = {"type": "array", "items": call[0] if len(call) == 1 else {"anyOf": call}}
    return _object(text={"type": "string"}, **{CALLS_KEY: calls})


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _as_json(tool: Tool) -> str:
    return json.dumps(tool.schema.parameters)


def _as_xml(tool: Tool) -> str:
    parameters = tool.schema.parameters
    call = describe_element(CALL_ELEMENT, parameters).replace(
        f"<{CALL_ELEMENT}>", f'<{CALL_ELEMENT} name="{tool.name}">', 1
    )
    said = [line for name, part in parameters["properties"].items() if (line := _said(name, part))]
    return "\n".join([call, *said])


def _said(name: str, schema: Mapping[str, Any]) -> str:
    """Return what an argument means and which values are accepted, or "" if there is nothing to
    say."""
    inner = schema.get("items", {})
    bounds = [
        f"at least {schema[key]}" for key in ("minimum", "minLength", "minItems") if key in schema
    ] + [f"at most {schema[key]}" for key in ("maximum", "maxLength", "maxItems") if key in schema]
    units = {"string": " characters", "array": " entries"}.get(schema["type"], "")
    choices = schema.get("enum", inner.get("enum", ()))
    parts = [schema.get("description", ""), f"{' and '.join(bounds)}{units}" if bounds else ""]
    parts.append(f"one of: {', '.join(map(str, choices))}" if choices else "")
    told = "; ".join(part for part in parts if part)
    return f"  {name}: {told}" if told else ""
