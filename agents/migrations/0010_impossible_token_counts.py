import math

from django.db import migrations
from django.db.models import F

_BATCH = 500
# A prompt was never taken for fewer tokens than a sixth of its weight, which no tokenizer exceeds;
# a server may have added some.
_MOST_FOR_EACH_ESTIMATED, _ADDED_TOKENS = 6, 1_000
# No agent was ever allowed to write more than 21,000.
_MOST_WRITTEN = 30_000
# As before a model has reported any usage.
_CHARACTERS_PER_TOKEN = 3


def forget_impossible_counts(apps, schema_editor):
    """Have calls whose servers reported what cannot be count as those that reported nothing."""
    database = schema_editor.connection.alias
    artifacts = apps.get_model("agents", "LLMArtifact").objects.using(database)
    reports = artifacts.order_by().values_list("pk", "token_counts", "layers")
    # Listed before the first is changed: what is read in batches must not move.
    impossible = [
        pk
        for pk, counts, layers in reports.iterator(chunk_size=_BATCH)
        if counts and not _is_possible(counts, _estimate(layers))
    ]
    for start in range(0, len(impossible), _BATCH):
        batch = list(
            artifacts.filter(pk__in=impossible[start : start + _BATCH]).only(
                "layers", "raw_output_ref"
            )
        )
        for artifact in batch:
            artifact.token_counts = {}
            artifact.estimated_input = _estimate(artifact.layers)
            written = len(artifact.raw_output_ref) / _CHARACTERS_PER_TOKEN
            artifact.estimated_output = math.ceil(written)
        artifacts.bulk_update(batch, ["token_counts", "estimated_input", "estimated_output"])
    # More tokens than the prompts can have had: the next calls teach it anew.
    calibrations = apps.get_model("agents", "TokenCalibration").objects.using(database)
    calibrations.filter(tokens__gt=F("weight")).delete()


def _is_possible(counts, estimated):
    read, written, cached = (counts.get(name, 0) for name in ("input", "output", "cached"))
    if any(type(count) is not int for count in (read, written, cached)):
        return False
    most_read = estimated * _MOST_FOR_EACH_ESTIMATED + _ADDED_TOKENS
    return 0 <= cached <= read <= most_read and 0 <= written <= _MOST_WRITTEN


def _estimate(layers):
    return sum(layer["tokens"] for layer in layers)


class Migration(migrations.Migration):
    """A count beyond what the database can add up made every page of its chapter fail."""

    dependencies = [
        ("agents", "0009_admitted_calls"),
    ]

    operations = [
        migrations.RunPython(forget_impossible_counts, migrations.RunPython.noop),
    ]
