"""The prompts of old calls become layers whose texts are stored once a chapter.

It goes on where it was broken off: each batch is a transaction of its own, and what it has converted
has no messages any more.
"""

import hashlib
import json
import re
from base64 import urlsafe_b64encode
from zlib import crc32

from django.db import migrations, transaction

# Artifacts at a time: the prompt of each may have a million characters.
BATCH = 50
BLANK_LINE = "\n\n"
# Layers of lines, which repeat from prompt to prompt; the others are stored by paragraph.
OF_LINES = ("STRUCTURED_MEMORY", "STRUCTURED_MEMORY_SO_FAR")
# What is not listed where it is as usual.
USUAL = {"role": "user", "kept": 1, "shortened": 0, "dropped": 0, "reason": ""}
# As agents.calling.stored_prompts had them when this was written.
LONG, TOGETHER = 400, 8


def convert(apps, schema_editor):
    database = schema_editor.connection.alias
    artifacts = apps.get_model("agents", "LLMArtifact").objects.using(database).order_by()
    texts = apps.get_model("agents", "PromptText").objects.using(database)
    for chapter in list(artifacts.values_list("session", flat=True).distinct()):
        keys = list(artifacts.filter(session=chapter).values_list("pk", flat=True))
        stored = set()
        for at in range(0, len(keys), BATCH):
            batch = artifacts.filter(pk__in=keys[at : at + BATCH])
            with transaction.atomic(database):
                convert_batch(chapter, batch, texts, stored)


def convert_batch(chapter, artifacts, prompt_texts, stored):
    """`stored` are the hashes of the chapter's texts that this run has stored."""
    converted, texts = [], {}
    for one in artifacts.only("input_hash", "layers", "raw_input_ref"):
        if not one.raw_input_ref and all("parts" in entry for entry in one.layers):
            continue
        layers = layers_of(one.raw_input_ref, one.layers, one.input_hash)
        one.layers, one.raw_input_ref = [entry_of(layer, texts) for layer in layers], []
        converted.append(one)
    prompt_texts.bulk_create(
        [
            prompt_texts.model(session_id=chapter, hash=name, text=text)
            for name, text in texts.items()
            if name not in stored
        ],
        ignore_conflicts=True,
    )
    stored.update(texts)
    artifacts.bulk_update(converted, ["layers", "raw_input_ref"])


def layers_of(messages, records, input_hash):
    """The layers by their recorded sizes, else by their headings; where they do not make the same
    messages again, each message as one layer. Without messages, nothing but the records is known."""
    if not messages:
        return [{**record, "text": None} for record in records]
    for split in (by_sizes, by_headings):
        layers = split(messages, records)
        if layers and digest(joined(layers)) == input_hash:
            return layers
    tokens = sum(number(record, "tokens") for record in records)
    return [
        {"role": one["role"], "text": one["content"], "tokens": 0 if at else tokens}
        for at, one in enumerate(messages)
    ]


def by_sizes(messages, records):
    """None where the sizes are lacking or do not fit."""
    layers, at, begin = [], 0, 0
    for record in records:
        if not was_sent(record):
            layers.append({**record, "role": messages[max(at - 1, 0)]["role"], "text": None})
            continue
        if at == len(messages) or "characters" not in record:
            return None
        content, size = messages[at]["content"], number(record, "characters")
        text = content[begin : begin + size]
        layers.append({**record, "role": messages[at]["role"], "text": text})
        begin += size + len(BLANK_LINE)
        if begin > len(content):
            at, begin = at + 1, 0
    return layers


def by_headings(messages, records):
    """None where the headings are not those of the layers, as when a story has one of its own."""
    names = [record["name"] for record in records if record.get("name")]
    heading = re.compile(rf"(?:\A|{BLANK_LINE})(?=## (?:{'|'.join(map(re.escape, names))})\n)")
    texts = [
        (message["role"], text)
        for message in messages
        for at, text in enumerate(heading.split(message["content"]))
        if at or text
    ]
    sent = [record for record in records if was_sent(record)]
    if len(sent) != len(texts):
        return None
    for record, (_, text) in zip(sent, texts, strict=True):
        known = next((name for name in names if text.startswith(f"## {name}\n")), None)
        if known not in (None, record.get("name")):
            return None
    layers, left = [], list(texts)
    for record in records:
        role, text = left.pop(0) if was_sent(record) else (layers[-1]["role"], None)
        layers.append({**record, "role": role, "text": text})
    return layers


def joined(layers):
    messages = []
    for layer in layers:
        if layer["text"] is None:
            continue
        if messages and messages[-1]["role"] == layer["role"]:
            messages[-1]["content"] += BLANK_LINE + layer["text"]
        else:
            messages.append({"role": layer["role"], "content": layer["text"]})
    return messages


def digest(messages):
    return hashlib.sha256(json.dumps(messages).encode()).hexdigest()


def entry_of(layer, texts):
    """The layer as an artifact lists it; puts its texts into `texts`, by their hashes."""
    name, text = str(layer.get("name", "")), layer["text"]
    entry = {"name": name, "tokens": number(layer, "tokens")}
    known = {figure: layer.get(figure, usual) for figure, usual in USUAL.items()}
    entry |= {figure: value for figure, value in known.items() if value != USUAL[figure]}
    heading = f"## {name}\n"
    if not name or (text is not None and not text.startswith(heading)):
        entry["has_heading"] = False
    elif text is not None:
        text = text.removeprefix(heading)
    separator = "\n" if name in OF_LINES else BLANK_LINE
    if separator != BLANK_LINE:
        entry["separator"] = separator
    parts = [] if text is None else list(gathered(text.split(separator), separator))
    hashes = [hash_of(part) for part in parts]
    texts.update(zip(hashes, parts, strict=True))
    return {**entry, "parts": hashes}


def gathered(parts, separator):
    together = []
    for part in parts:
        together.append(part)
        if len(part) >= LONG or crc32(part.encode()) % TOGETHER == 0:
            yield separator.join(together)
            together = []
    if together:
        yield separator.join(together)


def hash_of(text):
    return urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=15).digest()).decode()


def was_sent(record):
    return bool(record.get("kept") or record.get("shortened"))


def number(record, name):
    value = record.get(name, 0)
    return value if isinstance(value, int) else 0


class Migration(migrations.Migration):
    # Each batch by itself: a long library's prompts would make one transaction of gigabytes.
    atomic = False
    dependencies = [("agents", "0014_prompt_texts")]

    operations = [
        migrations.RunPython(convert, migrations.RunPython.noop),
        migrations.RemoveField("llmartifact", "raw_input_ref"),
    ]
