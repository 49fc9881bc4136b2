"""Reads one memory block as a fold.

A model wrote the payload of a block, so keys may be missing and values may have any type. The
reader skips every value that it cannot understand, but keeps every text of canon.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from memory.fold.names import (
    closed_by,
    closed_thread,
    is_closing,
    is_scene_place,
    key_of,
    person_key,
    placed_person,
    says_nothing,
    split_names,
)
from memory.fold.records import (
    Block,
    Correction,
    Fold,
    Moment,
    Prompts,
    Question,
    Record,
    Ruling,
    Scene,
    Setting,
    Sighting,
    Thing,
    Thread,
    Tie,
    Truth,
    Value,
)

RecordT = TypeVar("RecordT", bound=Record)
# A function that reads a block. It takes the block's payload and prompts, and returns a fold.
Reader = Callable[[dict[str, Any], Prompts], Fold]

# The deepest nesting that is read. No stored payload is nested deeper.
_MAX_DEPTH = 20
# The most bits of a whole number that is read. Python may refuse to write a larger number as text.
_MAX_BITS = 10_000
# Keys that say nothing about their value. Small models wrap a fact in an object with such a key.
_WRAPPERS = frozenset({"canon", "canon_lock", "fact", "lock", "name", "text", "truth", "value"})

_SETTINGS = (
    ("World", "world", ("genre", "tone")),
    ("Themes", "world", ("themes",)),
    ("Rules", "world", ("rules_of_reality",)),
    ("Powers", "world", ("factions_or_powers",)),
    ("Lore", "world", ("key_lore",)),
    ("Boundaries", "world", ("safety_or_boundaries",)),
    ("Premise", "chapter", ("premise",)),
    ("Time", "chapter", ("time",)),
    ("Threats", "chapter", ("active_threats",)),
    ("Goals", "chapter", ("chapter_goals",)),
)


def read_block(block: Block) -> Fold:
    """Return the fold of one block. The fold is empty if no function in `block_readers` reads
    blocks of this type."""
    payload = block.payload if isinstance(block.payload, dict) else {}
    reader = block_readers.get(str(block.type))
    return reader(payload, Prompts(block.from_prompt, block.to_prompt)) if reader else Fold()


def _read_lock(payload: dict[str, Any], prompts: Prompts) -> Fold:
    settings = []
    for label, part, keys in _SETTINGS:
        texts = [text for key in keys for text in _texts(_entry(payload, part), key)]
        if texts:
            settings.append(Setting(label, tuple(texts)))
    chapter = _entry(payload, "chapter")
    place, around = _text(chapter, "location"), _texts(chapter, "environment")
    cast = {}
    for entry in _entries(payload, "agents", "name"):
        if name := _text(entry, "name"):
            cast[_text(entry, "slot") or key_of(name)] = name
    return Fold(
        settings=tuple(settings),
        cast=cast,
        scene=Scene(place, tuple(around), prompts) if place or around else None,
        truths=_read_truths(payload, prompts, is_in_lock=True),
        threads=_keyed(
            (text, Thread(text, prompts, prompts, is_in_lock=True))
            for text in _texts(chapter, "open_mysteries")
            if not says_nothing(text)
        ),
    )


def _read_delta(payload: dict[str, Any], prompts: Prompts) -> Fold:
    values = _keyed(
        (key, Value(key, value, notes, prompts, prompts)) for key, value, notes in _changes(payload)
    )
    scene = _read_scene(payload, values, prompts)
    people = {person_key(name): name for name in _actors(payload)}
    threads: dict[str, Thread] = {}
    for key, value in values.items():
        if is_closing(value.value):
            closing = Thread(
                value.key,
                prompts,
                prompts,
                outcome=value.notes or value.value,
                is_open=False,
                is_named=False,
            )
            for closed in closed_by(key):
                threads[closed] = closing
    for thread in _read_threads(payload, prompts):
        _add(threads, thread.text, thread)
    return Fold(
        scene=scene,
        truths=_read_truths(payload, prompts),
        threads=threads,
        values=values,
        ties=_read_ties(payload, prompts),
        things=_read_things(payload, prompts),
        people=people,
        sightings=_read_sightings(people, values, scene, prompts),
        questions=_keyed(
            (text, Question(text, prompts, prompts))
            for text in _texts(payload, "contradictions_or_questions")
            if not says_nothing(text)
        ),
        moments=_read_moments(payload, prompts),
    )


def _read_correction(payload: dict[str, Any], prompts: Prompts) -> Fold:
    """Read a ruling. The old fact is read before the new fact, so if the two are the same, the
    ruling confirms the fact."""
    ruling = Correction(
        replaces=_text(payload, "replaces"),
        canon=_text(payload, "canon"),
        reason=_text(payload, "reason"),
        answers=_text(payload, "answers"),
        prompts=prompts,
    )
    truths: dict[str, Truth] = {}
    if ruling.replaces:
        gone = Truth(ruling.replaces, prompts, prompts, Ruling.UNTRUE)
        _add(truths, ruling.replaces, gone)
    if ruling.canon:
        new = Truth(ruling.canon, prompts, prompts, Ruling.TRUE, is_worded_by_gm=True)
        _add(truths, ruling.canon, new)
    return Fold(truths=truths, corrections=(ruling,))


# The function that reads a block's payload, for each type of block. memory.block_kinds adds the
# functions for the kinds that modes declare.
block_readers: dict[str, Reader] = {
    "world_chapter_lock": _read_lock,
    "turn_delta": _read_delta,
    "canon_correction": _read_correction,
}


def _read_truths(
    payload: dict[str, Any], prompts: Prompts, *, is_in_lock: bool = False
) -> dict[str, Truth]:
    return _keyed(
        (text, Truth(text, prompts, prompts, is_in_lock=is_in_lock))
        for text in _statements(payload.get("canon_locks"))
    )


def _read_scene(
    payload: dict[str, Any], values: dict[str, Value], prompts: Prompts
) -> Scene | None:
    moved = _entry(payload, "location_updates")
    stated = [value.value for key, value in values.items() if is_scene_place(key)]
    place = next((text for text in [_text(moved, "where"), *stated] if not says_nothing(text)), "")
    around = [
        text for text in _texts(moved, "notable_environment_changes") if not says_nothing(text)
    ]
    return Scene(place, tuple(around), prompts) if place or around else None


def _read_sightings(
    people: dict[str, str], values: dict[str, Value], scene: Scene | None, prompts: Prompts
) -> dict[str, Sighting]:
    place = scene.place if scene else ""
    found = {key: Sighting(place, prompts, prompts, is_guess=not place) for key in people}
    for key, value in values.items():
        who = placed_person(key)
        if who and value.value and not is_scene_place(key):
            found[who] = Sighting(value.value, prompts, prompts, is_stated=True)
    return found


def _read_threads(payload: dict[str, Any], prompts: Prompts) -> Iterator[Thread]:
    for entry in _entries(payload, "unresolved_threads", "thread"):
        text, stakes = _text(entry, "thread"), _text(entry, "stakes")
        trigger = _text(entry, "next_likely_trigger")
        if says_nothing(text):
            continue
        if closed := closed_thread(text):
            outcome = stakes or trigger
            yield Thread(closed, prompts, prompts, outcome=outcome, is_open=False)
        else:
            yield Thread(text, prompts, prompts, stakes, trigger)


def _read_ties(payload: dict[str, Any], prompts: Prompts) -> dict[str, Tie]:
    ties: dict[str, Tie] = {}
    for entry in _entries(payload, "relationship_shifts", "change"):
        people = tuple(_names(entry, "between"))
        change, evidence = _text(entry, "change"), _text(entry, "evidence")
        if says_nothing(change):
            change, evidence = evidence, ""
        if change:
            pair = " + ".join(sorted({person_key(one) for one in people}))
            _join_under(
                ties, pair or key_of(change), Tie(people, change, evidence, prompts, prompts)
            )
    return ties


def _read_things(payload: dict[str, Any], prompts: Prompts) -> dict[str, Thing]:
    things: dict[str, Thing] = {}
    for entry in _entries(payload, "items_clues_discovered", "thing"):
        name, finder = _text(entry, "thing"), ", ".join(_names(entry, "who_found"))
        if not says_nothing(name):
            found = Thing(name, finder, _text(entry, "why_it_matters"), prompts, prompts)
            _add(things, name, found)
    return things


def _read_moments(payload: dict[str, Any], prompts: Prompts) -> tuple[Moment, ...]:
    """Return a moment for each major event of the block, or for each deed if the block has no
    events."""
    moments: dict[str, Moment] = {}
    for entry in _entries(payload, "major_events", "event"):
        event, effect = _text(entry, "event"), _text(entry, "effect")
        if says_nothing(event):
            event, effect = effect, ""
        cause = _text(entry, "cause")
        parts = [f"cause: {cause}"] if not says_nothing(cause) else []
        parts += [f"effect: {effect}"] if not says_nothing(effect) else []
        if not says_nothing(event):
            moments.setdefault(key_of(event), Moment(event, "; ".join(parts), prompts))
    if not moments:
        for entry in _entries(payload, "character_actions", "did"):
            name, did = _text(entry, "name"), _text(entry, "did")
            if not says_nothing(did):
                text = f"{name}: {did}" if name else did
                result = _text(entry, "result")
                aside = "" if says_nothing(result) else result
                moments.setdefault(key_of(text), Moment(text, aside, prompts))
    return tuple(moments.values())


def _changes(payload: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield the key, the new value and the notes of each state change.

    A model may have written a change as a plain text. Then the text is the key.
    """
    for entry in _entries(payload, "state_changes", "key"):
        key, value, notes = (_text(entry, name) for name in ("key", "after", "notes"))
        if not value and ":" in key:
            key, value = (part.strip() for part in key.split(":", 1))
        if not key:
            key, value, notes = value or notes, "", notes if value else ""
        if not says_nothing(key):
            yield key, value, notes


def _actors(payload: dict[str, Any]) -> Iterator[str]:
    for entry in _entries(payload, "major_events", "event"):
        yield from _names(entry, "participants")
    for entry in _entries(payload, "character_actions", "did"):
        slot = _text(entry, "agent_slot")
        name = _text(entry, "name") or ("" if slot == "0" else slot)
        if not says_nothing(name):
            yield name
    for entry in _entries(payload, "items_clues_discovered", "thing"):
        yield from _names(entry, "who_found")


def _keyed(named: Iterable[tuple[str, RecordT]]) -> dict[str, RecordT]:
    keyed: dict[str, RecordT] = {}
    for text, record in named:
        _add(keyed, text, record)
    return keyed


def _add(records: dict[str, RecordT], text: str, record: RecordT) -> None:
    _join_under(records, key_of(text), record)


def _join_under(records: dict[str, RecordT], key: str, record: RecordT) -> None:
    records[key] = records[key].then(record) if key in records else record


def _entry(payload: dict[str, Any], key: str) -> dict[str, Any]:
    value = payload.get(key)
    return value if isinstance(value, dict) else {}


def _entries(payload: dict[str, Any], key: str, main: str) -> list[dict[str, Any]]:
    """Return the list under the key as objects. An entry that is plain text becomes an object with
    the text in the field `main`."""
    value = payload.get(key)
    entries = []
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, dict):
            entries.append(one)
        elif text := _as_text(one):
            entries.append({main: text})
    return entries


def _names(entry: dict[str, Any], key: str) -> list[str]:
    """Return the names of people under the key. A plain text such as "Mara and Tom" is split into
    names. An entry of a list is always one name."""
    value = entry.get(key)
    found = _texts(entry, key) if isinstance(value, list) else split_names(_text(entry, key))
    return list(dict.fromkeys(name for name in found if not says_nothing(name)))


def _text(entry: dict[str, Any], key: str) -> str:
    return _as_text(entry.get(key))


def _texts(entry: dict[str, Any], key: str) -> list[str]:
    value = entry.get(key)
    texts = [_as_text(one) for one in (value if isinstance(value, list) else [value])]
    return [text for text in texts if text]


def _statements(value: Any, depth: int = 0) -> Iterator[str]:
    """Yield every fact of canon in this value, which may be a list of nested lists."""
    if isinstance(value, list) and depth < _MAX_DEPTH:
        for one in value:
            yield from _statements(one, depth + 1)
    elif not isinstance(value, bool) and (text := _as_text(value)):
        yield text


def _as_text(value: Any, depth: int = 0) -> str:
    """Return a JSON value as one line of text."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return str(value)
    if isinstance(value, int):
        return str(value) if value.bit_length() < _MAX_BITS else ""
    if depth >= _MAX_DEPTH:
        return ""
    if isinstance(value, list):
        return ", ".join(text for one in value if (text := _as_text(one, depth + 1)))
    return _object_as_text(value, depth + 1) if isinstance(value, dict) else ""


def _object_as_text(value: dict[str, Any], depth: int) -> str:
    """Return an object as text such as "since: spring". A key with an empty value is written
    without a colon."""
    parts = []
    for key, one in value.items():
        name, text = _as_text(key), _as_text(one, depth)
        if name.casefold() not in _WRAPPERS:
            text = f"{name}: {text}" if name and text else name or text
        parts.append(text)
    return "; ".join(part for part in parts if part)
