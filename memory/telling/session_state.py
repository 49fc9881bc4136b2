"""Renders a chapter's present state as XML for requests, with one element on each line.

If a request lacks room, single lines are left out, those of the lowest rank first, and the oldest
of equal ones. The chronicle comes first: everything that memory says, in the order of the blocks,
so that it grows only at its end. What holds now comes after it, because each summary may change it.
A value that no longer holds moves into the chronicle, under the block that ended it. In this order
a provider's prefix cache can reuse the longest part. All text of people and models is escaped, so
that it can neither close an element nor imitate one.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from memory.blocks.same_names import key_of
from memory.fold.facts import Fact, Happening, Past, Whereabouts
from memory.fold.present import Present, present
from memory.fold.records import Fold, Mention, Prompts
from sessions.models import Session
from sessions.roster import Character

# The elements that hold memory and session state in a request. Text of people and models is
# escaped, so that it cannot open or close one of them anywhere in a request.
ELEMENTS = frozenset(
    {
        *("memory", "session_state", "state", "prompt_index", "last_summarized_prompt_index"),
        *("boundary", "world", "themes", "rules", "powers", "lore", "premise", "time"),
        *("threats", "goals", "canon", "open", "found", "closed", "told", "did", "was", "prompts"),
        *("between", "now", "unclear", "around", "where", "location"),
        *("no_longer_true", "earlier_chapter"),
    }
)
# The elements of the lines that say how things stand: the state of the world, threads with how they
# ended, and canon.
ELEMENTS_OF_NOW = frozenset(
    ("now", "where", "location", "around", "open", "closed", "unclear", "canon", "boundary")
)
# The elements of the lines that say where the scene and the people are, or what surrounds them.
_ELEMENTS_OF_PLACES = frozenset({"where", "location", "around"})
_SETTINGS = ("World", "Themes", "Rules", "Powers", "Lore", "Premise", "Time", "Threats", "Goals")
_MINIMAL_SETTINGS = ("World", "Rules", "Premise")
# The name of the lock in records of what a request left out.
_LOCK = "World and chapter"
# The prompts of the lock, which is told before the first prompt.
_SETUP = Prompts(0, 0)


class Detail(StrEnum):
    """The amount of detail, which depends on the tier of the request."""

    FULL = "full"
    MEDIUM = "medium"
    MINIMAL = "minimal"


class Rank(IntEnum):
    """The order in which lines are left out if a request lacks room: the lowest rank is left out
    first.

    Deeds and events go before the values that hold now. How a thread ended is such a value too.
    """

    PAST = 0
    DEEDS = 1
    OTHERS = 2
    AROUND = 3
    EVENTS = 4
    RELATIONSHIPS = 5
    CLOSED_THREADS = 6
    ITEMS = 7
    QUESTIONS = 8
    STATE = 9
    SETTING = 10
    PLACES = 11
    WITHDRAWN = 12
    OPEN_THREADS = 13
    BOUNDARIES = 14
    CANON = 15
    # The rank of a withdrawn fact if the same request has the text of the lock, which still states
    # the fact.
    OVERRULED = 16


@dataclass(frozen=True)
class StateLine:
    """A line with one element.

    `said` is the full text of the fact. Repetitions are found by comparing it. `block` and `place`
    say where in memory the fact is, such as "Prompts 1-7" and "event 2". A line of the chronicle is
    `under` the heading of a block: its last and its first prompt. If `heads` is not 0, the line is
    such a heading, and stands above this many lines. `prompt` is the last prompt that the fact
    comes from, or 0 for the lock.

    The line of a deed may have a second text, `with_intent`, which only the person with the name
    `doer` and the agents who tell the story may read. `intended` is the full text of the fact with
    the intent.
    """

    text: str
    rank: Rank
    said: str
    block: str = ""
    place: str = ""
    under: tuple[int, int] | None = None
    heads: int = 0
    doer: str = ""
    with_intent: str = ""
    intended: str = ""
    tag: str = ""
    prompt: int = 0

    def is_more_for(self, name: str | None) -> bool:
        """Return whether the member of the cast with this name reads the second text, or an agent
        who is told everything if the name is None."""
        return bool(self.with_intent) and name in (None, self.doer)

    def for_reader(self, name: str | None) -> str:
        return self.with_intent if self.is_more_for(name) else self.text


def memory_lines(
    folded: Fold,
    roster: Sequence[Character] = (),
    *,
    detail: Detail = Detail.FULL,
    beside_lock: bool = False,
    told_before: int | None = None,
    tells_places: bool = True,
) -> list[StateLine]:
    """Return memory as lines.

    `beside_lock` is True if the request also has the text of the lock. Facts of the lock are then
    left out. The request shows the prompts from `told_before` on word for word, so events and deeds
    of these prompts are left out. Without `tells_places`, nothing says where the scene and the
    people are, because the request says so from the world of the chapter.
    """
    now = present(folded, roster)
    told = [one for one in now.timeline if told_before is None or one.latest.last < told_before]
    lines = [
        *([] if beside_lock else _settings(now, detail)),
        *_chronicle(now, told, beside_lock=beside_lock),
        *_changing(now, beside_lock=beside_lock),
    ]
    if not tells_places:
        lines = [line for line in lines if not _tells_place(line)]
    return list(_with_headings(_once(lines)))


def _tells_place(line: StateLine) -> bool:
    """Return whether the line tells the present or a past place of the scene or of somebody, or the
    surroundings."""
    return line.tag in _ELEMENTS_OF_PLACES or (line.tag, line.place) == ("was", "location")


def play_lines(chapter: Session, detail: Detail = Detail.FULL) -> list[str]:
    """Return the lines that say how far play has come. In a request they are last, because each
    prompt changes them."""
    lines = [
        _element("prompt_index", str(chapter.prompt_index)),
        _element("last_summarized_prompt_index", str(chapter.last_summarized_prompt_index)),
    ]
    return lines if detail is Detail.MINIMAL else [_element("state", chapter.state), *lines]


def _settings(now: Present, detail: Detail) -> Iterator[StateLine]:
    """Yield the lines of the world and the chapter. The boundaries of what the story may show are
    always among them."""
    labels = _MINIMAL_SETTINGS if detail is Detail.MINIMAL else _SETTINGS
    told = {setting.label: setting.texts for setting in now.settings}
    for text in told.get("Boundaries", ()):
        yield _line("boundary", text, Rank.BOUNDARIES, _SETUP, "boundaries")
    for label in labels:
        for text in told.get(label, ()):
            yield _line(label.lower(), text, Rank.SETTING, _SETUP, label.lower())


def _chronicle(now: Present, told: Iterable[Happening], *, beside_lock: bool) -> list[StateLine]:
    """Return the lines of everything that memory says, in the order of its blocks.

    A closed thread stands under the block that closed it, and a past value under the block that
    ended it.
    """
    lines = [_happening(one) for one in told]
    latest = {id(fact.mention) for fact in now.relationships}
    for fact in now.shifts:
        rank = Rank.RELATIONSHIPS if id(fact.mention) in latest else Rank.PAST
        lines.append(_fact("between", fact, rank))
    lines += [_fact("found", fact, Rank.ITEMS) for fact in now.finds]
    for past in now.past:
        # If the request has the text of the lock, the first place that the lock names is not told
        # again.
        if not (beside_lock and not past.held_at.last):
            lines.append(_past(past))
    lines += [
        _fact("canon", fact, Rank.CANON)
        for fact in now.canon
        if not (beside_lock and fact.is_in_lock)
    ]
    lines += [
        _fact("open", fact, Rank.OPEN_THREADS)
        for fact in now.opened
        if not (beside_lock and fact.is_in_lock)
    ]
    lines += [_fact("closed", fact, Rank.CLOSED_THREADS) for fact in now.closed]
    # The sort is stable, so facts of the same prompts keep the order of the code above.
    return sorted(lines, key=lambda line: line.under or (0, 0))


def _changing(now: Present, *, beside_lock: bool) -> Iterator[StateLine]:
    """Yield the lines about facts that hold now, and about facts that the Game Master withdrew."""
    for fact in now.withdrawn:
        still_stands = beside_lock and fact.is_in_lock
        rank = Rank.OVERRULED if still_stands else Rank.WITHDRAWN
        yield _line("no_longer_true", fact.text, rank, fact.latest, "correction")
    for fact in now.questions:
        yield _now("unclear", fact, Rank.QUESTIONS)
    for fact in now.state:
        yield _now("now", fact, Rank.STATE)
    for text, prompts in _together(now.others):
        yield _line("where", text, Rank.OTHERS, prompts, "whereabouts")
    for fact in now.around:
        if not (beside_lock and not fact.latest.last):
            yield _now("around", fact, Rank.AROUND)
    for text, prompts in _together(now.cast):
        yield _line("where", text, Rank.PLACES, prompts, "whereabouts")
    if now.scene and not (beside_lock and not now.scene.latest.last):
        yield _now("location", now.scene, Rank.PLACES)


# Lines and elements are cached, because a long chapter has a thousand of them and a summary changes
# only a few.
@lru_cache(maxsize=16_384)
def _happening(one: Happening) -> StateLine:
    """Return the line of an event or a deed."""
    told = _with_others(one.told, one.who)
    tag, rank = ("did", Rank.DEEDS) if one.is_deed else ("told", Rank.EVENTS)
    line = _line(tag, told, rank, one.first, one.place, under=one.mention or Mention(one.first))
    if not one.intent:
        return line
    aside = "; ".join(filter(None, (f"intent: {one.intent}", one.aside)))
    intended = f"{one.text} ({aside})"
    return replace(line, doer=one.doer, with_intent=_element("did", intended), intended=intended)


def _with_others(told: str, who: Sequence[str]) -> str:
    """Add the people who took part in an event and whom its text does not name."""
    named = key_of(told) if who else ""
    others = [name for name in who if key_of(name) not in named]
    return f"{told} [{', '.join(others)}]" if others else told


def _past(past: Past) -> StateLine:
    held = {"at": str(past.held_at)} if past.held_at.last else {}
    return _line(
        "was",
        past.text,
        Rank.PAST,
        past.held_at,
        past.place,
        under=past.mention,
        **held,
    )


def _together(whereabouts: Iterable[Whereabouts]) -> Iterator[tuple[str, Prompts]]:
    """Yield a text for each place with the people there, such as "Mara, Tom: the ferry", and the
    latest prompts that told so."""
    places: dict[str, tuple[str, list[Whereabouts]]] = {}
    for one in whereabouts:
        places.setdefault(key_of(one.place), (one.place, []))[1].append(one)
    for place, found in places.values():
        names = ", ".join(one.name for one in found)
        yield f"{names}: {place}", max(one.latest for one in found)


@lru_cache(maxsize=4_096)
def block_label(prompts: Prompts) -> str:
    """Return the name of a block of memory by its prompts, such as "Prompts 8-14"."""
    if not prompts.last:
        return _LOCK
    return f"Prompt {prompts}" if prompts.first == prompts.last else f"Prompts {prompts}"


def _fact(tag: str, fact: Fact, rank: Rank) -> StateLine:
    """Return a line of the chronicle, which stands under the prompts of the fact's entry."""
    mention = fact.mention or Mention(fact.latest)
    return _line(tag, fact.told, rank, mention.prompts, fact.place, under=mention)


def _now(tag: str, fact: Fact, rank: Rank) -> StateLine:
    return _line(tag, fact.told, rank, fact.latest, fact.place)


def _line(
    tag: str,
    text: str,
    rank: Rank,
    said_at: Prompts,
    place: str,
    *,
    under: Mention | None = None,
    **attributes: str,
) -> StateLine:
    """Return a line about a fact that the block of the prompts `said_at` says. A line of the
    chronicle stands `under` an entry of memory."""
    return StateLine(
        _element(tag, text, **attributes),
        rank,
        text,
        block_label(said_at),
        place,
        (under.prompts.last, under.prompts.first) if under else None,
        tag=tag,
        prompt=max(under.prompts.at, default=under.prompts.last) if under else said_at.last,
    )


def _with_headings(lines: Sequence[StateLine]) -> Iterator[StateLine]:
    """Yield the lines, with a heading before the lines of each block. The lock has no heading."""
    for under, group in groupby(lines, key=lambda line: line.under):
        together = list(group)
        if under and under[0]:
            told = str(Prompts(under[1], under[0]))
            yield StateLine(heading_of(under), Rank.CANON, told, heads=len(together))
        yield from together


def heading_of(under: tuple[int, int]) -> str:
    """Return the heading of the lines that stand `under` a block: its last and its first prompt."""
    return _element("prompts", str(Prompts(under[1], under[0])))


@lru_cache(maxsize=16_384)
def _element(tag: str, text: str, **attributes: str) -> str:
    assert tag in ELEMENTS, "Others' texts could forge it."
    told = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{told}>{escape(text)}</{tag}>"


def _once(lines: list[StateLine]) -> list[StateLine]:
    """Return the lines without repetitions. If several lines say the same, the one with the highest
    rank is kept.

    Most lines of the chronicle are repetitions only under the same prompts, because what happened
    twice is told twice. Canon and open threads are told once in the whole of memory. The
    repetitions of canon and open threads are removed first, because a line that is removed anyway
    must not take the place of an event.
    """
    once = _without_repetitions(
        lines,
        # Only canon, open threads and lines that are not of the chronicle have higher ranks.
        lambda line: (line.said.casefold(), line.under if line.rank <= Rank.ITEMS else None),
    )
    return _without_repetitions(once, lambda line: (line.said.casefold(), line.under))


def _without_repetitions(
    lines: Sequence[StateLine], key_of_line: Callable[[StateLine], Hashable]
) -> list[StateLine]:
    kept: dict[Hashable, int] = {}
    for at, line in enumerate(lines):
        key = key_of_line(line)
        if key not in kept or line.rank > lines[kept[key]].rank:
            kept[key] = at
    return [lines[at] for at in sorted(kept.values())]
