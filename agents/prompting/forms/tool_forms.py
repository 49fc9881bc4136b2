"""Chooses the form of tool calls for a model, and describes the form to the model."""

import json
from collections.abc import Sequence
from typing import Any

from agents.facts.model_facts import ModelFacts
from agents.prompting.escaping import CALL_ELEMENT, CALLS_KEY
from agents.prompting.forms.reply_forms import form_for
from agents.prompting.forms.tolerant_xml import describe_element
from agents.prompting.layers import Layer, Piece
from agents.prompting.prompt_files import render_prompt
from agents.prompting.tools import Tool, ToolForm


def tool_form_for(facts: ModelFacts, preferred: ToolForm) -> ToolForm:
    """Return the form in which a model should write tool calls: the form that the agent prefers, if
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
        _object(name={"type": "string", "enum": [tool.name]}, arguments=tool.schema.parameters)
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
    return describe_element(CALL_ELEMENT, tool.schema.parameters).replace(
        f"<{CALL_ELEMENT}>", f'<{CALL_ELEMENT} name="{tool.name}">', 1
    )
