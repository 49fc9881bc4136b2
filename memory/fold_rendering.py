"""A fold as text for prompts, in sections that a budget can trim, and as the page's Now view.

Every line is one line, whatever was in the payload. What one section says no later one repeats.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from memory.fold_names import key_of
from memory.fold_present import Fact, Present, Whereabouts, present
from memory.fold_records import Fold, Prompts
from memory.rendering import CANON, OPEN
from sessions.roster import Character

_MINIMAL_LINE = 160
_SETTINGS = ("World", "Themes", "Rules", "Powers", "Lore", "Premise", "Time", "Threats", "Goals")
_MINIMAL_SETTINGS = ("World", "Premise")


class Rank(IntEnum):
    """What gives way first when there is no room: the lowest."""

    TIMELINE = 0
    CLOSED_THREADS = 1
    OTHERS = 2
    RELATIONSHIPS = 3
    ITEMS = 4
    STATE = 5
    QUESTIONS = 6
    SETTING = 7
    PLACES = 8
    WITHDRAWN = 9
    OPEN_THREADS = 10
    BOUNDARIES = 11
    CANON = 12


@dataclass(frozen=True)
class FoldSection:
    """Lines of one kind, the oldest first: trimming takes them from the front."""

    name: str
    items: tuple[str, ...]
    rank: Rank

    @property
    def text(self) -> str:
        if len(self.items) == 1:
            return f"{self.name}: {self.items[0]}"
        return "\n".join([f"{self.name}:", *(f"- {item}" for item in self.items)])


@dataclass(frozen=True)
class NowItem:
    """`replaces` is what a correction of this item names; empty where none can be made."""

    text: str
    aside: str
    first: Prompts
    latest: Prompts
    replaces: str


@dataclass(frozen=True)
class NowSection:
    """`key` tells templates apart what `title` tells the reader."""

    key: str
    title: str
    items: tuple[NowItem, ...]


def medium(
    folded: Fold, roster: Sequence[Character] = (), *, beside_lock: bool = False
) -> list[FoldSection]:
    """Everything, with asides, in reading order: what changes least stands first.

    With `beside_lock` the lock's own text stands in the prompt too: what it says is left out.
    """
    now = present(folded, roster)
    return _filled(
        [
            *([] if beside_lock else _settings(now, _SETTINGS)),
            _canon(now, beside_lock=beside_lock),
            FoldSection("No longer true", _texts(now.withdrawn), Rank.WITHDRAWN),
            FoldSection("So far", tuple(map(_moment, now.timeline)), Rank.TIMELINE),
            FoldSection("Closed", _full(now.closed_threads), Rank.CLOSED_THREADS),
            FoldSection("Between them", _full(now.relationships), Rank.RELATIONSHIPS),
            FoldSection("Found", _full(now.items), Rank.ITEMS),
            FoldSection("State", _full(now.state), Rank.STATE),
            FoldSection("Others", _together(now.others), Rank.OTHERS),
            FoldSection("Unclear", _texts(now.questions), Rank.QUESTIONS),
            *_places(now, with_around=True),
            _open(now, _full, beside_lock=beside_lock),
        ]
    )


def minimal(
    folded: Fold, roster: Sequence[Character] = (), *, beside_lock: bool = False
) -> list[FoldSection]:
    """What a small window needs: no asides, one short line a block; canon as in `medium`."""
    now = present(folded, roster)
    return _filled(
        [
            *([] if beside_lock else _settings(now, _MINIMAL_SETTINGS)),
            _canon(now, beside_lock=beside_lock),
            *(
                [FoldSection("No longer true", _texts(now.withdrawn), Rank.WITHDRAWN)]
                if beside_lock
                else []
            ),
            FoldSection("So far", _line_a_block(now.timeline), Rank.TIMELINE),
            FoldSection("Between them", _short(now.relationships), Rank.RELATIONSHIPS),
            FoldSection("Found", _short(now.items), Rank.ITEMS),
            FoldSection("State", _short(now.state), Rank.STATE),
            *_places(now, with_around=False),
            _open(now, _texts, beside_lock=beside_lock),
        ]
    )


def fold_text(sections: Iterable[FoldSection]) -> str:
    return "\n".join(section.text for section in sections)


def trim(
    sections: Sequence[FoldSection], room: float, cost: Callable[[str], float]
) -> list[FoldSection]:
    """Shed lines until the sections cost at most `room`: the lowest rank first, of each section
    the oldest line first, and when there is room for nothing, all of them.

    `cost` weighs a line; where costs add up, the text of what is kept costs no more than `room`.
    """
    names = [cost(f"{section.name}:\n") for section in sections]
    costs = [[cost(f"- {item}\n") for item in section.items] for section in sections]
    total = sum(names) + sum(sum(lines) for lines in costs)
    kept = list(sections)
    for at in sorted(range(len(sections)), key=lambda index: sections[index].rank):
        shed = 0
        while total > room and shed < len(costs[at]):
            total -= costs[at][shed]
            shed += 1
        if shed == len(costs[at]):
            total -= names[at]
        kept[at] = replace(sections[at], items=sections[at].items[shed:])
    return [section for section in kept if section.items]


def now_view(folded: Fold, roster: Sequence[Character] = ()) -> list[NowSection]:
    """Sections that hold something, in the order of the page; the latest of each kind first,
    canon and the timeline as they were told."""
    now = present(folded, roster)
    scene = [now.scene] if now.scene else []
    places = [
        *(NowItem(fact.text, "; ".join(now.around), fact.first, fact.latest, "") for fact in scene),
        *(_now_place(one) for one in (*now.cast, *reversed(now.others))),
    ]
    sections = [
        NowSection("canon", "Canon", _now_items(now.canon)),
        NowSection(
            "questions", "Contradictions and questions", _uncorrected_items(reversed(now.questions))
        ),
        NowSection("open", "Open threads", _now_items(reversed(now.open_threads))),
        NowSection("where", "Where everyone is", tuple(places)),
        NowSection("state", "How things stand", _now_items(reversed(now.state))),
        NowSection("relationships", "Between them", _now_items(reversed(now.relationships))),
        NowSection("items", "Items and clues", _now_items(reversed(now.items))),
        NowSection("closed", "Closed threads", _uncorrected_items(reversed(now.closed_threads))),
        NowSection(
            "withdrawn", "No longer true", _uncorrected_items(map(_now_instead, now.withdrawn))
        ),
        NowSection("timeline", "Timeline", _now_items(now.timeline)),
    ]
    return [section for section in sections if section.items]


def _now_items(facts: Iterable[Fact]) -> tuple[NowItem, ...]:
    return tuple(
        NowItem(fact.text, fact.aside, fact.first, fact.latest, fact.text) for fact in facts
    )


def _uncorrected_items(facts: Iterable[Fact]) -> tuple[NowItem, ...]:
    """What is asked or over: there is nothing to withdraw in it."""
    return tuple(replace(item, replaces="") for item in _now_items(facts))


def _now_instead(fact: Fact) -> Fact:
    return replace(fact, aside=f"now: {fact.aside}") if fact.aside else fact


def _now_place(one: Whereabouts) -> NowItem:
    return NowItem(one.text, "", one.first, one.latest, one.text)


def _settings(now: Present, labels: Sequence[str]) -> list[FoldSection]:
    """What the story must not show holds in every window."""
    told = {setting.label: setting.texts for setting in now.settings}
    return [
        FoldSection("Boundaries", told.get("Boundaries", ()), Rank.BOUNDARIES),
        *(FoldSection(label, told.get(label, ()), Rank.SETTING) for label in labels),
    ]


def _canon(now: Present, *, beside_lock: bool) -> FoldSection:
    facts = [fact for fact in now.canon if not (beside_lock and fact.is_in_lock)]
    return FoldSection(CANON, _texts(facts), Rank.CANON)


def _open(
    now: Present, lines: Callable[[Iterable[Fact]], tuple[str, ...]], *, beside_lock: bool
) -> FoldSection:
    """A mystery of the lock stands again once play has added to it."""
    facts = [
        one for one in now.open_threads if not (beside_lock and one.is_in_lock and not one.aside)
    ]
    return FoldSection(OPEN, lines(facts), Rank.OPEN_THREADS)


def _places(now: Present, *, with_around: bool) -> list[FoldSection]:
    scene = now.scene.text if now.scene else ""
    around = now.around if with_around else ()
    return [
        FoldSection("Scene", (scene,) if scene else (), Rank.PLACES),
        FoldSection("Around", around, Rank.QUESTIONS),
        FoldSection("Where", _together(now.cast), Rank.PLACES),
    ]


def _together(whereabouts: Iterable[Whereabouts]) -> tuple[str, ...]:
    """People at one place in one line: "Mara, Tom: the ferry"."""
    places: dict[str, tuple[str, list[str]]] = {}
    for one in whereabouts:
        places.setdefault(key_of(one.place), (one.place, []))[1].append(one.name)
    return tuple(f"{', '.join(names)}: {place}" for place, names in places.values())


def _texts(facts: Iterable[Fact]) -> tuple[str, ...]:
    return tuple(fact.text for fact in facts)


def _full(facts: Iterable[Fact]) -> tuple[str, ...]:
    return tuple(f"{fact.text} ({fact.aside})" if fact.aside else fact.text for fact in facts)


def _short(facts: Iterable[Fact]) -> tuple[str, ...]:
    return tuple(_clipped(fact.text) for fact in facts)


def _moment(fact: Fact) -> str:
    return f"{fact.first} {fact.text}" + (f" ({fact.aside})" if fact.aside else "")


def _line_a_block(timeline: Iterable[Fact]) -> tuple[str, ...]:
    lines: dict[Prompts, list[str]] = {}
    for fact in timeline:
        lines.setdefault(fact.first, []).append(fact.text)
    return tuple(_clipped(f"{prompts} {'; '.join(texts)}") for prompts, texts in lines.items())


def _clipped(text: str) -> str:
    if len(text) <= _MINIMAL_LINE:
        return text
    start = text[: _MINIMAL_LINE - 1].rpartition(" ")[0] or text[: _MINIMAL_LINE - 1]
    return f"{start}\N{HORIZONTAL ELLIPSIS}"


def _filled(sections: Iterable[FoldSection]) -> list[FoldSection]:
    """The sections that say something; a line that stands twice stays where it is shed last."""
    said: set[str] = set()
    filled = {}
    in_order = list(enumerate(sections))
    for at, section in sorted(in_order, key=lambda pair: pair[1].rank, reverse=True):
        fresh = {item.casefold(): item for item in reversed(section.items)}
        items = tuple(item for key, item in reversed(fresh.items()) if key not in said)
        said |= fresh.keys()
        if items:
            filled[at] = replace(section, items=items)
    return [filled[at] for at in sorted(filled)]
