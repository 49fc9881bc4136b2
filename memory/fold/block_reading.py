"""Reads one memory block as a fold.

A model wrote the payload of a block, so the reader skips every value that it cannot understand (see
memory.fold.values). It keeps every text of canon.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from memory.blocks.same_names import (
    closed_by,
    closed_thread,
    is_closing,
    is_scene_place,
    key_of,
    person_key,
    placed_person,
    says_nothing,
)
from memory.fold.prompt_numbers import AT, from_prompts, of_each_text
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
from memory.fold.values import (
    entries_of,
    entry_of,
    names_of,
    numbered,
    said_in,
    statements_in,
    text_of,
    texts_of,
)

RecordT = TypeVar("RecordT", bound=Record)
# A function that reads a block. It takes the block's payload and prompts, and returns a fold.
Reader = Callable[[dict[str, Any], Prompts], Fold]

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
        texts = [text for key in keys for text in texts_of(entry_of(payload, part), key)]
        if texts:
            settings.append(Setting(label, tuple(texts)))
    chapter = entry_of(payload, "chapter")
    place, around = text_of(chapter, "location"), texts_of(chapter, "environment")
    cast = {}
    for entry in entries_of(payload, "agents", "name"):
        if name := text_of(entry, "name"):
            cast[text_of(entry, "slot") or key_of(name)] = name
    return Fold(
        settings=tuple(settings),
        cast=cast,
        scene=_scene(place, around, prompts),
        truths=_read_truths(payload, prompts, is_in_lock=True),
        threads=_keyed(
            (text, Thread(text, told=(ThreadNote(mention),), is_in_lock=True))
            for text, mention in _mentioned(texts_of(chapter, "open_mysteries"), "mystery", prompts)
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
        replaces=text_of(payload, "replaces"),
        canon=text_of(payload, "canon"),
        reason=text_of(payload, "reason"),
        answers=text_of(payload, "answers"),
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


# The function that reads a block's payload, for each type of block. memory.telling.block_kinds adds
# the functions for the kinds that modes declare.
block_readers: dict[str, Reader] = {
    "world_chapter_lock": _read_lock,
    "turn_delta": _read_delta,
    "canon_correction": _read_correction,
    "story_so_far": _read_delta,
}


def _read_truths(
    payload: dict[str, Any], prompts: Prompts, *, is_in_lock: bool = False
) -> dict[str, Truth]:
    texts = list(statements_in(payload.get("canon_locks")))
    told = of_each_text(payload, "canon_locks", len(texts), prompts)
    return _keyed(
        (text, Truth(text, said, said, is_in_lock=is_in_lock, place=f"canon {number}"))
        for number, (text, said) in enumerate(zip(texts, told, strict=True), 1)
    )


def _read_questions(payload: dict[str, Any], prompts: Prompts) -> dict[str, Question]:
    texts = texts_of(payload, "contradictions_or_questions")
    told = of_each_text(payload, "contradictions_or_questions", len(texts), prompts)
    return _keyed(
        (text, Question(text, said, said, place=f"question {number}"))
        for number, (text, said) in enumerate(zip(texts, told, strict=True), 1)
        if not says_nothing(text)
    )


def _read_scene(
    payload: dict[str, Any], values: dict[str, Value], prompts: Prompts
) -> Scene | None:
    moved = entry_of(payload, "location_updates")
    told = from_prompts(moved.get(AT), prompts)
    stated = [(value.value, value.latest) for key, value in values.items() if is_scene_place(key)]
    places = [(text_of(moved, "where"), told), *stated]
    place, told = next((one for one in places if not says_nothing(one[0])), ("", told))
    around = [
        text for text in texts_of(moved, "notable_environment_changes") if not says_nothing(text)
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
    for number, entry in numbered(payload, "unresolved_threads", "thread"):
        text, stakes = text_of(entry, "thread"), said_in(entry, "stakes")
        trigger = said_in(entry, "next_likely_trigger")
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
    for number, entry in numbered(payload, "relationship_shifts", "change"):
        people = tuple(names_of(entry, "between"))
        change, evidence = text_of(entry, "change"), said_in(entry, "evidence")
        if says_nothing(change):
            change, evidence = evidence, ""
        if change:
            pair = " + ".join(sorted({person_key(one) for one in people}))
            shift = Shift(change, evidence, _mention(entry, f"shift {number}", prompts))
            _join_under(ties, pair or key_of(change), Tie(people, told=(shift,)))
    return ties


def _read_things(payload: dict[str, Any], prompts: Prompts) -> dict[str, Thing]:
    things: dict[str, Thing] = {}
    for number, entry in numbered(payload, "items_clues_discovered", "thing"):
        name, finder = text_of(entry, "thing"), ", ".join(names_of(entry, "who_found"))
        if not says_nothing(name):
            mention = _mention(entry, f"find {number}", prompts)
            find = Find(finder, said_in(entry, "why_it_matters"), mention)
            _add(things, name, Thing(name, told=(find,)))
    return things


def _read_moments(payload: dict[str, Any], prompts: Prompts) -> tuple[Moment, ...]:
    """Return a moment for each major event of the block, and then for each deed."""
    moments: dict[Moment, Moment] = {}

    def add(moment: Moment) -> None:
        moments.setdefault(replace(moment, mention=Mention(prompts)), moment)

    for number, entry in numbered(payload, "major_events", "event"):
        event, effect = text_of(entry, "event"), said_in(entry, "effect")
        if says_nothing(event):
            event, effect = effect, ""
        if event:
            mention = _mention(entry, f"event {number}", prompts)
            who = tuple(names_of(entry, "participants"))
            add(Moment(event, mention, said_in(entry, "cause"), effect, who))
    for number, entry in numbered(payload, "character_actions", "did"):
        did = text_of(entry, "did")
        if not says_nothing(did):
            mention = _mention(entry, f"deed {number}", prompts)
            intent, result = said_in(entry, "intent"), said_in(entry, "result")
            doer = _doer(entry)
            add(Moment(did, mention, is_deed=True, doer=doer, intent=intent, result=result))
    return tuple(moments.values())


def _read_changes(payload: dict[str, Any], prompts: Prompts) -> Iterator[tuple[str, Stated]]:
    """Yield the key and the new value of each state change.

    A model may have written a change as a plain text. Then the text is the key.
    """
    for number, entry in numbered(payload, "state_changes", "key"):
        key, value, notes = (text_of(entry, name) for name in ("key", "after", "notes"))
        if not value and ":" in key:
            key, value = (part.strip() for part in key.split(":", 1))
        if not key:
            key, value, notes = value or notes, "", notes if value else ""
        if not says_nothing(key):
            mention = _mention(entry, f"change {number}", prompts)
            yield key, Stated(value, mention, said_in(entry, "before"), notes)


def _acts(payload: dict[str, Any], prompts: Prompts) -> dict[str, tuple[str, Prompts]]:
    """Return the people who act in the block, each with their name and the prompts where they
    act."""
    acts: dict[str, tuple[str, Prompts]] = {}
    for name, entry in _actors(payload):
        told, key = from_prompts(entry.get(AT), prompts), person_key(name)
        before = acts[key][1].at if key in acts else ()
        acts[key] = name, replace(told, at=tuple(sorted({*before, *told.at})))
    return acts


def _actors(payload: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each person who acts, with the entry of the block that tells of the act."""
    for entry in entries_of(payload, "major_events", "event"):
        yield from ((name, entry) for name in names_of(entry, "participants"))
    for entry in entries_of(payload, "character_actions", "did"):
        if name := _doer(entry):
            yield name, entry
    for entry in entries_of(payload, "items_clues_discovered", "thing"):
        yield from ((name, entry) for name in names_of(entry, "who_found"))


def _doer(entry: dict[str, Any]) -> str:
    """Return the name of the person who did a deed, or the number of the person's slot."""
    slot = text_of(entry, "agent_slot")
    name = text_of(entry, "name") or ("" if slot == "0" else slot)
    return "" if says_nothing(name) else name


def _mention(entry: dict[str, Any], place: str, prompts: Prompts) -> Mention:
    return Mention(from_prompts(entry.get(AT), prompts), place)


def _mentioned(texts: Iterable[str], place: str, prompts: Prompts) -> Iterator[tuple[str, Mention]]:
    """Yield each text that has content, with its place in the block."""
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
