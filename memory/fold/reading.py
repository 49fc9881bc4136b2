"""Reads one memory block as a fold.

A model wrote the payload of a block, so keys may be missing and values may have any type. The
reader skips every value that it cannot understand, but keeps every text of canon.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
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
    Find,
    Fold,
    Mention,
    Moment,
    Prompts,
    Question,
    Record,
    Ruling,
    Scene,
    Setting,
    Shift,
    Sighting,
    Stated,
    Thing,
    Thread,
    ThreadNote,
    Tie,
    Truth,
    Value,
    Visit,
)
from memory.fold.sources import AT, from_prompts, of_each_text

RecordT = TypeVar("RecordT", bound=Record)
# A function that reads a block. It takes the block's payload and prompts, and returns a fold.
Reader = Callable[[dict[str, Any], Prompts], Fold]

# The deepest nesting that is read. No stored payload is nested deeper.
_MAX_DEPTH = 20
# The most bits of a whole number that is read. Python may refuse to write a larger number as text.
_MAX_BITS = 10_000
# Keys that say nothing about their value. Small models wrap a fact in an object with such a key.
_WRAPPERS = frozenset({"canon", "canon_lock", "fact", "lock", "name", "text", "truth", "value"})
# Values that the end of a thread does not tell: that the thread was open before, and that it is
# closed now.
_OPEN = frozenset({"", "active", "open", "pending", "unresolved"})
_CLOSED_ALONE = frozenset({"answered", "closed", "finished", "resolved", "settled", "solved"})

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
        scene=_scene(place, around, prompts),
        truths=_read_truths(payload, prompts, is_in_lock=True),
        threads=_keyed(
            (text, Thread(text, told=(ThreadNote(mention),), is_in_lock=True))
            for text, mention in _mentioned(_texts(chapter, "open_mysteries"), "mystery", prompts)
        ),
    )


def _read_delta(payload: dict[str, Any], prompts: Prompts) -> Fold:
    values = _keyed(
        (key, Value(key, told=(stated,))) for key, stated in _read_changes(payload, prompts)
    )
    scene = _read_scene(payload, values, prompts)
    acts = _acts(payload, prompts)
    people = {key: name for key, (name, _) in acts.items()}
    threads: dict[str, Thread] = {}
    for key, value in values.items():
        if is_closing(value.value):
            closing = Thread(value.key, told=(_closing_note(value.now),), is_named=False)
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
        sightings=_read_sightings(acts, values, scene),
        questions=_read_questions(payload, prompts),
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
    texts = list(_statements(payload.get("canon_locks")))
    told = of_each_text(payload, "canon_locks", len(texts), prompts)
    return _keyed(
        (text, Truth(text, said, said, is_in_lock=is_in_lock, place=f"canon {number}"))
        for number, (text, said) in enumerate(zip(texts, told, strict=True), 1)
    )


def _read_questions(payload: dict[str, Any], prompts: Prompts) -> dict[str, Question]:
    texts = _texts(payload, "contradictions_or_questions")
    told = of_each_text(payload, "contradictions_or_questions", len(texts), prompts)
    return _keyed(
        (text, Question(text, said, said, place=f"question {number}"))
        for number, (text, said) in enumerate(zip(texts, told, strict=True), 1)
        if not says_nothing(text)
    )


def _read_scene(
    payload: dict[str, Any], values: dict[str, Value], prompts: Prompts
) -> Scene | None:
    moved = _entry(payload, "location_updates")
    told = from_prompts(moved.get(AT), prompts)
    stated = [(value.value, value.latest) for key, value in values.items() if is_scene_place(key)]
    places = [(_text(moved, "where"), told), *stated]
    place, told = next((one for one in places if not says_nothing(one[0])), ("", told))
    around = [
        text for text in _texts(moved, "notable_environment_changes") if not says_nothing(text)
    ]
    return _scene(place, around, told)


def _scene(place: str, around: list[str], prompts: Prompts) -> Scene | None:
    visit = Visit(place, tuple(around), Mention(prompts, "location"))
    return Scene(told=(visit,)) if place or around else None


def _read_sightings(
    acts: dict[str, tuple[str, Prompts]], values: dict[str, Value], scene: Scene | None
) -> dict[str, Sighting]:
    place = scene.place if scene else ""
    found = {
        key: Sighting(place, told, told, is_guess=not place, placed=told.end if place else 0)
        for key, (_, told) in acts.items()
    }
    for key, value in values.items():
        who = placed_person(key)
        if who and value.value and not is_scene_place(key):
            told = value.latest
            found[who] = Sighting(value.value, told, told, is_stated=True, placed=told.end)
    return found


def _read_threads(payload: dict[str, Any], prompts: Prompts) -> Iterator[Thread]:
    for number, entry in _numbered(payload, "unresolved_threads", "thread"):
        text, stakes = _text(entry, "thread"), _said(entry, "stakes")
        trigger = _said(entry, "next_likely_trigger")
        if says_nothing(text):
            continue
        mention = _mention(entry, f"thread {number}", prompts)
        if closed := closed_thread(text):
            outcome = "; ".join(filter(None, (stakes, trigger)))
            yield Thread(closed, told=(ThreadNote(mention, outcome=outcome, is_open=False),))
        else:
            yield Thread(text, told=(ThreadNote(mention, stakes, trigger),))


def _closing_note(stated: Stated) -> ThreadNote:
    before = "" if key_of(stated.before) in _OPEN else f"before: {stated.before}"
    value = "" if stated.notes and key_of(stated.value) in _CLOSED_ALONE else stated.value
    outcome = "; ".join(filter(None, (before, value, stated.notes)))
    is_bare = key_of(outcome) in _CLOSED_ALONE
    return ThreadNote(stated.mention, outcome=outcome, is_open=False, is_bare=is_bare)


def _read_ties(payload: dict[str, Any], prompts: Prompts) -> dict[str, Tie]:
    ties: dict[str, Tie] = {}
    for number, entry in _numbered(payload, "relationship_shifts", "change"):
        people = tuple(_names(entry, "between"))
        change, evidence = _text(entry, "change"), _said(entry, "evidence")
        if says_nothing(change):
            change, evidence = evidence, ""
        if change:
            pair = " + ".join(sorted({person_key(one) for one in people}))
            shift = Shift(change, evidence, _mention(entry, f"shift {number}", prompts))
            _join_under(ties, pair or key_of(change), Tie(people, told=(shift,)))
    return ties


def _read_things(payload: dict[str, Any], prompts: Prompts) -> dict[str, Thing]:
    things: dict[str, Thing] = {}
    for number, entry in _numbered(payload, "items_clues_discovered", "thing"):
        name, finder = _text(entry, "thing"), ", ".join(_names(entry, "who_found"))
        if not says_nothing(name):
            mention = _mention(entry, f"find {number}", prompts)
            find = Find(finder, _said(entry, "why_it_matters"), mention)
            _add(things, name, Thing(name, told=(find,)))
    return things


def _read_moments(payload: dict[str, Any], prompts: Prompts) -> tuple[Moment, ...]:
    """Return a moment for each major event of the block, and then for each deed."""
    moments: dict[Moment, Moment] = {}

    def add(moment: Moment) -> None:
        moments.setdefault(replace(moment, mention=Mention(prompts)), moment)

    for number, entry in _numbered(payload, "major_events", "event"):
        event, effect = _text(entry, "event"), _said(entry, "effect")
        if says_nothing(event):
            event, effect = effect, ""
        if event:
            mention = _mention(entry, f"event {number}", prompts)
            who = tuple(_names(entry, "participants"))
            add(Moment(event, mention, _said(entry, "cause"), effect, who))
    for number, entry in _numbered(payload, "character_actions", "did"):
        did = _text(entry, "did")
        if not says_nothing(did):
            mention = _mention(entry, f"deed {number}", prompts)
            intent, result = _said(entry, "intent"), _said(entry, "result")
            doer = _doer(entry)
            add(Moment(did, mention, is_deed=True, doer=doer, intent=intent, result=result))
    return tuple(moments.values())


def _read_changes(payload: dict[str, Any], prompts: Prompts) -> Iterator[tuple[str, Stated]]:
    """Yield the key and the new value of each state change.

    A model may have written a change as a plain text. Then the text is the key.
    """
    for number, entry in _numbered(payload, "state_changes", "key"):
        key, value, notes = (_text(entry, name) for name in ("key", "after", "notes"))
        if not value and ":" in key:
            key, value = (part.strip() for part in key.split(":", 1))
        if not key:
            key, value, notes = value or notes, "", notes if value else ""
        if not says_nothing(key):
            mention = _mention(entry, f"change {number}", prompts)
            yield key, Stated(value, mention, _said(entry, "before"), notes)


def _acts(payload: dict[str, Any], prompts: Prompts) -> dict[str, tuple[str, Prompts]]:
    """Return the people who act in the block, each with their name and the prompts in which they
    act."""
    acts: dict[str, tuple[str, Prompts]] = {}
    for name, entry in _actors(payload):
        told, key = from_prompts(entry.get(AT), prompts), person_key(name)
        before = acts[key][1].at if key in acts else ()
        acts[key] = name, replace(told, at=tuple(sorted({*before, *told.at})))
    return acts


def _actors(payload: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each person who acts, with the entry that says so."""
    for entry in _entries(payload, "major_events", "event"):
        yield from ((name, entry) for name in _names(entry, "participants"))
    for entry in _entries(payload, "character_actions", "did"):
        if name := _doer(entry):
            yield name, entry
    for entry in _entries(payload, "items_clues_discovered", "thing"):
        yield from ((name, entry) for name in _names(entry, "who_found"))


def _doer(entry: dict[str, Any]) -> str:
    """Return the name of the person who did a deed, or the number of the person's slot."""
    slot = _text(entry, "agent_slot")
    name = _text(entry, "name") or ("" if slot == "0" else slot)
    return "" if says_nothing(name) else name


def _mention(entry: dict[str, Any], place: str, prompts: Prompts) -> Mention:
    return Mention(from_prompts(entry.get(AT), prompts), place)


def _mentioned(texts: Iterable[str], place: str, prompts: Prompts) -> Iterator[tuple[str, Mention]]:
    """Yield each text that says something, with its place in the block."""
    for number, text in enumerate(texts, 1):
        if not says_nothing(text):
            yield text, Mention(prompts, f"{place} {number}")


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


def _numbered(payload: dict[str, Any], key: str, main: str) -> Iterator[tuple[int, dict[str, Any]]]:
    return enumerate(_entries(payload, key, main), 1)


def _names(entry: dict[str, Any], key: str) -> list[str]:
    """Return the names of people under the key. A plain text such as "Mara and Tom" is split into
    names. An entry of a list is always one name."""
    value = entry.get(key)
    found = _texts(entry, key) if isinstance(value, list) else split_names(_text(entry, key))
    return list(dict.fromkeys(name for name in found if not says_nothing(name)))


def _text(entry: dict[str, Any], key: str) -> str:
    return _as_text(entry.get(key))


def _said(entry: dict[str, Any], key: str) -> str:
    """Return the text under the key, or "" if the text is a filler such as "none"."""
    text = _text(entry, key)
    return "" if says_nothing(text) else text


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
