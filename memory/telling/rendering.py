"""Renders memory blocks as text: compact for requests, and in sections for pages.

A model wrote the payload of a block, so a value may have any type, and a value of an unexpected
type is skipped. The text depends only on the block. So a block is sent in the same words each time,
and prefix caches can reuse them.
"""

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from memory.models import MemoryBlock
from sessions.models import Session
from sessions.roster import Character

# A number is shown only up to this one. A larger one is left out, because it is a model's mistake.
_LARGEST_NUMBER = 10**15

CANON = "Canon, must not change"
OPEN = "Open"
_CAST = "Characters"

_ANSWERS = {
    "keep": "the old canon stands",
    "take_new": "the new stands",
    "ignore": "nothing changes",
}


@dataclass(frozen=True)
class Section:
    label: str
    lines: list[str]


@dataclass(frozen=True)
class ReadableBlock:
    """A block in the form that a page shows. The `badge` is a short text beside the title."""

    title: str
    badge: str
    sections: list[Section]


@dataclass(frozen=True)
class BlockForm:
    """The form in which blocks of a type are shown.

    The function `sections` takes a payload and a roster, and returns the texts of the payload. The
    roster has the cast when a page is made, and is empty when a request is made. A request shows
    the texts under the `heading`. A page shows the texts under the `title` and the `badge`.
    """

    sections: Callable[[Any, Sequence[Character]], list[Section]]
    heading: Callable[[MemoryBlock], str]
    title: Callable[[MemoryBlock], str]
    badge: Callable[[MemoryBlock, list[Section]], str] = lambda block, sections: ""


def told_lock(chapter: Session) -> str:
    """Return the text of the lock, or "" if the chapter has no lock yet."""
    locks = chapter.memory_blocks.filter(type=MemoryBlock.Type.WORLD_CHAPTER_LOCK)
    block_id = locks.values_list("pk", flat=True).first()
    return _render_stored(block_id) if block_id else ""


@lru_cache(maxsize=2_048)
def _render_stored(block_id: uuid.UUID) -> str:
    """Return a block's text. The text is cached, because blocks never change and every request
    needs them."""
    return render(MemoryBlock.objects.get(pk=block_id))


def render(block: MemoryBlock) -> str:
    """Return the block's text for requests. It does not list the cast, because each request does so
    in another layer."""
    form = _form_of(block)
    sections = [one for one in form.sections(block.json_payload, ()) if one.label != _CAST]
    return _compact(form.heading(block), _filled(sections))


def known_to(block: MemoryBlock, roster: Sequence[Character]) -> str:
    """Return the end of a block's title, such as ", known to Mara", or "" if the whole cast knows
    the block."""
    audience = block.audience
    if audience is None or all(one.slot in audience for one in roster):
        return ""
    names = [one.name for one in roster if one.slot in audience]
    return f", known to {', '.join(names) or 'nobody of the cast'}"


def readable_block(block: MemoryBlock, roster: Sequence[Character] = ()) -> ReadableBlock:
    form = _form_of(block)
    sections = _filled(form.sections(block.json_payload, roster))
    title = f"{form.title(block)}{known_to(block, roster)}"
    return ReadableBlock(title, form.badge(block, sections), sections)


def readable_lock(payload: Any) -> list[Section]:
    """Return the sections of a lock that need not be complete, in the form in which a page shows
    the finished block."""
    return _filled(_lock_sections(payload, ()))


def _form_of(block: MemoryBlock) -> BlockForm:
    return block_forms.get(str(block.type), _UNKNOWN)


def prompts_of(block: MemoryBlock) -> str:
    """Return the prompts that the block covers, in a form such as "Prompts 8-14"."""
    first, last = block.from_prompt_index, block.to_prompt_index
    return f"Prompt {first}" if first == last else f"Prompts {first}-{last}"


def _lock_sections(payload: Any, roster: Sequence[Character]) -> list[Section]:
    world, chapter = _entry(payload, "world"), _entry(payload, "chapter")
    kind = [_text(world, "genre"), _text(world, "tone")]
    scene = [_text(chapter, "location"), _text(chapter, "time"), *_texts(chapter, "environment")]
    cast = [(str(one.slot), one.color, one.name) for one in roster] or [
        (_text(entry, "slot"), _text(entry, "color"), _text(entry, "name"))
        for entry in _entries(payload, "agents")
    ]
    return [
        Section("World", [_join("; ", kind)]),
        Section("Themes", [_join(", ", _texts(world, "themes"))]),
        Section("Rules", _texts(world, "rules_of_reality")),
        Section("Powers", _texts(world, "factions_or_powers")),
        Section("Lore", _texts(world, "key_lore")),
        Section("Boundaries", _texts(world, "safety_or_boundaries")),
        Section("Chapter", [_text(chapter, "premise")]),
        Section("Scene", [_join("; ", scene)]),
        Section("Threats", _texts(chapter, "active_threats")),
        Section("Mysteries", _texts(chapter, "open_mysteries")),
        Section("Goals", _texts(chapter, "chapter_goals")),
        Section(
            _CAST,
            [_join(", ", [_join(" ", one) for one in cast if one[-1]])],
        ),
        _canon(payload),
        Section("Assumed", _texts(payload, "assumptions")),
    ]


def _delta_sections(payload: Any) -> list[Section]:
    place = _entry(payload, "location_updates")
    shifts = [_shift(entry) for entry in _entries(payload, "relationship_shifts")]
    finds = [_find(entry) for entry in _entries(payload, "items_clues_discovered")]
    return [
        Section("Where", [_text(place, "where")]),
        Section("Around", _texts(place, "notable_environment_changes")),
        Section("Events", [_event(entry) for entry in _entries(payload, "major_events")]),
        Section("Deeds", [_deed(entry) for entry in _entries(payload, "character_actions")]),
        _changes(payload),
        Section("Between them", shifts),
        Section("Found", finds),
        _threads(payload),
        _canon(payload),
        Section("Unclear", _texts(payload, "contradictions_or_questions")),
    ]


def _correction_sections(payload: Any) -> list[Section]:
    return [
        Section("Question", _texts(payload, "answers")),
        Section("Answer", [_ANSWERS.get(_text(payload, "answer"), "")]),
        Section("Now true", _texts(payload, "canon")),
        Section("No longer true", _texts(payload, "replaces")),
        Section("Why", _texts(payload, "reason")),
    ]


# The form for each type of block. memory.telling.block_kinds adds the forms for the kinds that
# modes declare.
block_forms: dict[str, BlockForm] = {
    "world_chapter_lock": BlockForm(
        _lock_sections,
        heading=lambda block: "World and chapter",
        title=lambda block: "World and chapter",
        badge=lambda block, sections: "locked",
    ),
    "turn_delta": BlockForm(
        lambda payload, roster: _delta_sections(payload),
        heading=prompts_of,
        title=prompts_of,
        badge=lambda block, sections: _badge(sections),
    ),
    "story_so_far": BlockForm(
        lambda payload, roster: _delta_sections(payload),
        heading=lambda block: "The story so far",
        title=lambda block: "The story so far",
        badge=lambda block, sections: _badge(sections),
    ),
    "canon_correction": BlockForm(
        lambda payload, roster: _correction_sections(payload),
        heading=lambda block: (
            f"Correction after prompt {block.to_prompt_index}, overrules what stands above"
        ),
        title=lambda block: "Correction of canon",
        badge=lambda block, sections: f"after prompt {block.to_prompt_index}",
    ),
}
# The form for a block whose type no installed mode declares.
_UNKNOWN = BlockForm(lambda payload, roster: [], heading=prompts_of, title=prompts_of)


def _canon(payload: Any) -> Section:
    return Section(CANON, _texts(payload, "canon_locks"))


def _changes(payload: Any) -> Section:
    return Section("Changed", [_change(entry) for entry in _entries(payload, "state_changes")])


def _threads(payload: Any) -> Section:
    return Section(OPEN, [_thread(entry) for entry in _entries(payload, "unresolved_threads")])


def _event(entry: dict[str, Any]) -> str:
    event = _text(entry, "event")
    told = event.casefold()
    others = [one for one in _texts(entry, "participants") if one.casefold() not in told]
    why = _aside([("cause:", _text(entry, "cause")), ("effect:", _text(entry, "effect"))])
    return _join(" ", [event, why, f"[{', '.join(others)}]" if event and others else ""])


def _deed(entry: dict[str, Any]) -> str:
    did = _join(": ", [_text(entry, "name"), _text(entry, "did")])
    return _join(
        " ",
        [did, _aside([("intent:", _text(entry, "intent")), ("result:", _text(entry, "result"))])],
    )


def _change(entry: dict[str, Any]) -> str:
    move = _join(" -> ", [_text(entry, "before"), _text(entry, "after")])
    return _join(
        " ", [_join(": ", [_text(entry, "key"), move]), _aside([("", _text(entry, "notes"))])]
    )


def _shift(entry: dict[str, Any]) -> str:
    pair = _join(" and ", _texts(entry, "between"))
    evidence = _aside([("", _text(entry, "evidence"))])
    return _join(" ", [_join(": ", [pair, _text(entry, "change")]), evidence])


def _find(entry: dict[str, Any]) -> str:
    aside = _aside([("by", _text(entry, "who_found")), ("", _text(entry, "why_it_matters"))])
    return _join(" ", [_text(entry, "thing"), aside])


def _thread(entry: dict[str, Any]) -> str:
    aside = _aside(
        [("at stake:", _text(entry, "stakes")), ("next:", _text(entry, "next_likely_trigger"))]
    )
    return _join(" ", [_text(entry, "thread"), aside])


def _badge(sections: list[Section]) -> str:
    counts = {section.label: len(section.lines) for section in sections}
    parts = [("open threads", counts.get(OPEN)), ("canon", counts.get(CANON))]
    return " \N{MIDDLE DOT} ".join(f"{name}: {count}" for name, count in parts if count)


def _compact(heading: str, sections: list[Section]) -> str:
    if not sections:
        return f"{heading}: nothing new"
    lines = [heading]
    for label, entries in ((section.label, section.lines) for section in sections):
        if len(entries) == 1:
            lines.append(f"{label}: {entries[0]}")
        else:
            lines += [f"{label}:", *(f"- {entry}" for entry in entries)]
    return "\n".join(lines)


def _filled(sections: Iterable[Section]) -> list[Section]:
    """Return the sections without empty sections and without repeated lines."""
    said: set[str] = set()
    filled = []
    for section in sections:
        lines = []
        for line in section.lines:
            if line and line.casefold() not in said:
                said.add(line.casefold())
                lines.append(line)
        if lines:
            filled.append(Section(section.label, lines))
    return filled


def _aside(parts: Iterable[tuple[str, str]]) -> str:
    said = [f"{lead} {text}".strip() for lead, text in parts if text]
    return f"({'; '.join(said)})" if said else ""


def _join(separator: str, parts: Iterable[str]) -> str:
    return separator.join(part for part in parts if part)


def _entry(payload: Any, key: str) -> dict[str, Any]:
    value = payload.get(key) if isinstance(payload, dict) else None
    return value if isinstance(value, dict) else {}


def _entries(payload: Any, key: str) -> list[dict[str, Any]]:
    value = payload.get(key) if isinstance(payload, dict) else None
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _text(payload: Any, key: str) -> str:
    return _as_text(payload.get(key) if isinstance(payload, dict) else None)


def _texts(payload: Any, key: str) -> list[str]:
    value = payload.get(key) if isinstance(payload, dict) else None
    texts = [_as_text(one) for one in (value if isinstance(value, list) else [value])]
    return [text for text in texts if text]


def _as_text(value: Any) -> str:
    """Return a JSON value as one line of text, or "" if it is an object, a list or null."""
    if isinstance(value, str):
        return " ".join(value.split())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and abs(value) < _LARGEST_NUMBER:
        return str(value)
    return ""
