"""Decides whether a JSON schema may be sent in OpenAI's strict mode."""

from collections.abc import Mapping
from typing import Any

# The keywords that OpenAI's strict mode refuses. Other servers accept these keywords, and small
# models need them to finish an answer. So a schema with such a keyword is sent unchanged, but not
# in strict mode.
_NOT_IN_STRICT = {
    "allOf", "default", "dependentRequired", "dependentSchemas", "else", "if", "maxLength",
    "maxProperties", "minLength", "minProperties", "not", "oneOf", "patternProperties",
    "propertyNames", "then", "uniqueItems",
}  # fmt: skip


def is_strict(schema: Mapping[str, Any]) -> bool:
    """Return whether a JSON schema may be sent in strict mode.

    Strict mode requires that the schema has no keyword of _NOT_IN_STRICT, and that each object
    requires all its fields and allows no others.
    """
    if _NOT_IN_STRICT & schema.keys():
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False
        or set(schema.get("required", ())) != set(properties)
    ):
        return False
    return all(is_strict(inner) for inner in _inner_schemas(schema))


def _inner_schemas(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    inner: list[Any] = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    inner += [*schema.get("anyOf", ()), *schema.get("prefixItems", ()), schema.get("items")]
    return [each for each in inner if isinstance(each, Mapping)]
