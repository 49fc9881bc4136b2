"""The sections of the Now view, which shows the present state of memory on a page. Each item names
the prompts that told it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from memory.fold.facts import Fact, Whereabouts
from memory.fold.present import present
from memory.fold.prompt_numbers import sources_of
from memory.fold.records import Fold, Prompts
from sessions.roster import Character


@dataclass(frozen=True)
class NowItem:
    """An item of a section of the Now view.

    `replaces` is the text that a ruling needs to withdraw the item, or "" if the item cannot be
    withdrawn.
    """

    text: str
    aside: str
    first: Prompts
    latest: Prompts
    replaces: str

    @property
    def at(self) -> tuple[int, ...]:
        """The prompts that the item comes from, as far as memory names them."""
        return tuple(sorted({*self.first.at, *self.latest.at}))

    @property
    def sources(self) -> list[Prompts]:
        """The prompts that the item comes from, as ranges. If memory names no prompts, these are
        the prompts of the block."""
        return sources_of(self.first, self.latest)


@dataclass(frozen=True)
class NowSection:
    """A section of the Now view. The `title` is for people, and templates tell sections apart by
    the `key`."""

    key: str
    title: str
    items: tuple[NowItem, ...]


def now_view(folded: Fold, roster: Sequence[Character] = ()) -> list[NowSection]:
    """Return the sections that have items, in the order of the page.

    In most sections the latest item comes first. Canon and the timeline are in the order of the
    story.
    """
    now = present(folded, roster)
    scene = [now.scene] if now.scene else []
    around = "; ".join(one.text for one in now.around)
    places = [
        *(NowItem(fact.text, around, fact.first, fact.latest, fact.text) for fact in scene),
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
    """Return the facts as items that no ruling can withdraw, such as questions and closed
    threads."""
    return tuple(replace(item, replaces="") for item in _now_items(facts))


def _now_instead(fact: Fact) -> Fact:
    return replace(fact, aside=f"now: {fact.aside}") if fact.aside else fact


def _now_place(one: Whereabouts) -> NowItem:
    return NowItem(one.text, "", one.first, one.latest, one.text)
