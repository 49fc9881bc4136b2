"""The fields of requests that servers have refused for a model. They are stored in the database, so
that all processes leave them out, also after a restart."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone

from agents.llm.facts.model_facts import ModelFacts
from agents.llm.providers.failures.field_refusals import JSON_SCHEMA, RESPONSE_FORMAT, TOOLS
from agents.llm.providers.windows import address_of
from agents.models import RefusedField

_Key = tuple[str, str]

# A row counts only for this time, because a server may be updated, and because words that only
# mention the field may have been taken for a refusal.
_LASTS = timedelta(days=1)

# The fields as this process last read them, by server and model. The whole object is replaced.
_refused: Mapping[_Key, frozenset[str]] = {}


def stored_refusals() -> QuerySet[RefusedField]:
    """Return the rows that still count."""
    return RefusedField.objects.order_by().filter(refused_at__gt=timezone.now() - _LASTS)


def hold_refused_fields(rows: Iterable[tuple[str, str, str]]) -> None:
    """Keep the stored rows, each a server, a model and a field, for this process."""
    global _refused
    found: dict[_Key, frozenset[str]] = {}
    for server, model, field in rows:
        found[server, model] = found.get((server, model), frozenset()) | {field}
    _refused = found


def refused_fields(address: str, model: str) -> frozenset[str]:
    """Return the fields that this server refuses for this model, as this process last read them.
    The function makes no query."""
    return _refused.get(_key(address, model), frozenset()) if _refused else frozenset()


def note_refused_fields(address: str, model: str, fields: Iterable[str]) -> None:
    """Store that the server refuses these fields for this model from now on."""
    global _refused
    key = _key(address, model)
    rows = [RefusedField(server=key[0], model=key[1], field=field) for field in sorted(fields)]
    RefusedField.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["server", "model", "field"],
        update_fields=["refused_at"],
    )
    _refused = {**_refused, key: _refused.get(key, frozenset()) | set(fields)}


def forget_refused_fields(address: str, model: str | None = None) -> None:
    """Let the refused fields be sent again: the fields of one model of the server, or of all its
    models."""
    server, name = _key(address, model or "")
    rows = RefusedField.objects.filter(server=server)
    (rows if model is None else rows.filter(model=name)).delete()


def facts_without_refused(facts: ModelFacts, refused: frozenset[str]) -> ModelFacts:
    """Return the facts of a model without the forms of answers that its server refuses."""
    if not refused:
        return facts
    return replace(
        facts,
        json_schema=facts.json_schema and refused.isdisjoint((JSON_SCHEMA, RESPONSE_FORMAT)),
        tools=facts.tools and TOOLS not in refused,
    )


def takes_json_object(refused: frozenset[str]) -> bool:
    """Return whether to ask the server for an answer that is any JSON object. The server is asked
    for this only after it has refused a schema."""
    return JSON_SCHEMA in refused and RESPONSE_FORMAT not in refused


def _key(address: str, model: str) -> _Key:
    longest = RefusedField.LONGEST
    return address_of(address)[:longest], model[:longest]
