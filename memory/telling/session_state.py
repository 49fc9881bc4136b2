"""Renders a chapter's present state as XML for requests, with one element on each line.

If a request lacks room, single lines are left out. Lasting facts come first, in the order in which
they were said, so that the part with these facts only grows at its end. Facts that each summary may
change come after them. In this order a provider's prefix cache can reuse the longest part. All text
of people and models is escaped, so that it can neither close an element nor imitate one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from functools import lru_cache
from xml.sax.saxutils import escape, quoteattr

from memory.fold.names import key_of
from memory.fold.present import Fact, Present, Whereabouts, present
from memory.fold.records import Fold, Prompts
from sessions.models import Session
from sessions.roster import Character

# The most characters of a line of the timeline, and of any other fact in the minimal tier.
TOLD_LIMIT = 100
LINE_LIMIT = 160
# The elements in which requests tell memory and session state. Text of people and models is
# escaped, so that it cannot open or close one of them anywhere in a request.
ELEMENTS = frozenset(
    {
        *("memory", "session_state", "state", "prompt_index", "last_summarized_prompt_index"),
        *("boundary", "world", "themes", "rules", "powers", "lore", "premise", "time"),
        *("threats", "goals", "canon", "open", "found", "closed", "told", "no_longer_true"),
        *("between", "now", "elsewhere", "unclear", "pressing", "around", "where", "location"),
    }
)
_SETTINGS = ("World", "Themes", "Rules", "Powers", "Lore", "Premise", "Time", "Threats", "Goals")
_MINIMAL_SETTINGS = ("World", "Rules", "Premise")


class Detail(StrEnum):
    """The amount of detail, which depends on the tier of the request."""

    FULL = "full"
    MEDIUM = "medium"
    MINIMAL = "minimal"


class Rank(IntEnum):
    """The order in which lines are left out if a request lacks room: the lowest rank goes first."""

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
    # The rank of a withdrawn fact if the same request has the text of the lock, which still states
    # the fact.
    OVERRULED = 13


@dataclass(frozen=True)
class StateLine:
    """A line with one element. `said` is the full text of the fact, and lines with the same text
    count as repetitions."""

    text: str
    rank: Rank
    said: str


def memory_lines(
    folded: Fold,
    roster: Sequence[Character] = (),
    *,
    detail: Detail = Detail.FULL,
    beside_lock: bool = False,
    told_before: int | None = None,
) -> list[StateLine]:
    """Return the present state of memory as lines.

    `beside_lock` is True if the request also has the text of the lock. Facts of the lock are then
    left out. The request shows the prompts from `told_before` on word for word, so events of these
    prompts are left out.
    """
    now = present(folded, roster)
    if told_before is not None:
        earlier = tuple(one for one in now.timeline if one.latest.last < told_before)
        now = replace(now, timeline=earlier)
    lines = [
        *([] if beside_lock else _settings(now, detail)),
        *_chronicle(now, detail, beside_lock=beside_lock),
        *_changing(now, detail, beside_lock=beside_lock),
    ]
    return _once(lines)


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
        yield _line("boundary", text, Rank.BOUNDARIES)
    for label in labels:
        for text in told.get(label, ()):
            yield _line(label.lower(), text, Rank.SETTING)


def _chronicle(now: Present, detail: Detail, *, beside_lock: bool) -> list[StateLine]:
    """Return the lines of lasting facts, in the order of the prompts that first said them. A closed
    thread has its place at the prompts that closed it."""
    entries: list[tuple[Prompts, StateLine]] = [
        (fact.first, _line("canon", fact.text, Rank.CANON))
        for fact in now.canon
        if not (beside_lock and fact.is_in_lock)
    ]
    entries += [
        (fact.first, _line("open", fact.text, Rank.OPEN_THREADS))
        for fact in now.open_threads
        # A mystery that the lock states is repeated only if play has added something to it.
        if not (beside_lock and fact.is_in_lock and not fact.aside)
    ]
    entries += [(fact.first, _fact("found", fact, Rank.ITEMS, detail)) for fact in now.items]
    if detail is not Detail.MINIMAL:
        entries += [
            (fact.latest, _fact("closed", fact, Rank.CLOSED_THREADS, detail))
            for fact in now.closed_threads
        ]
    # The timeline comes last among facts of the same prompts, because its lines may be added much
    # later.
    entries += [
        (prompts, _line("told", text, Rank.TIMELINE, at=str(prompts)))
        for prompts, text in _timeline(now.timeline)
    ]
    # The sort is stable, so facts of the same prompts stay in the order in which they were added
    # above.
    return [line for _, line in sorted(entries, key=lambda entry: (entry[0].last, entry[0].first))]


def _changing(now: Present, detail: Detail, *, beside_lock: bool) -> Iterator[StateLine]:
    for fact in now.withdrawn:
        still_stands = beside_lock and fact.is_in_lock
        rank = Rank.OVERRULED if still_stands else Rank.WITHDRAWN
        yield _line("no_longer_true", fact.text, rank)
    for fact in now.relationships:
        yield _fact("between", fact, Rank.RELATIONSHIPS, detail)
    for fact in now.state:
        yield _fact("now", fact, Rank.STATE, detail)
    if detail is not Detail.MINIMAL:
        for text in _together(now.others):
            yield _line("elsewhere", text, Rank.OTHERS)
        for fact in now.questions:
            yield _line("unclear", fact.text, Rank.QUESTIONS)
        yield from _pressing(now.open_threads)
        for text in now.around:
            yield _line("around", text, Rank.QUESTIONS)
    for text in _together(now.cast):
        yield _line("where", text, Rank.PLACES)
    if now.scene:
        yield _line("location", now.scene.text, Rank.PLACES)


def _pressing(threads: Sequence[Fact]) -> Iterator[StateLine]:
    """Yield a line for each urgent thread: one that has something at stake, while no other open
    thread was mentioned later."""
    latest = max((thread.latest for thread in threads), default=None)
    for thread in threads:
        if thread.aside and thread.latest == latest:
            text = f"{thread.text} ({thread.aside})"
            yield StateLine(_element("pressing", text), Rank.QUESTIONS, text)


def _timeline(moments: Iterable[Fact]) -> Iterator[tuple[Prompts, str]]:
    told: dict[Prompts, list[str]] = {}
    for moment in moments:
        told.setdefault(moment.first, []).append(moment.text)
    for prompts, texts in told.items():
        yield prompts, _clipped("; ".join(texts), TOLD_LIMIT)


def _together(whereabouts: Iterable[Whereabouts]) -> Iterator[str]:
    """Yield a line for each place with the people there, such as "Mara, Tom: the ferry"."""
    places: dict[str, tuple[str, list[str]]] = {}
    for one in whereabouts:
        places.setdefault(key_of(one.place), (one.place, []))[1].append(one.name)
    for place, names in places.values():
        yield f"{', '.join(names)}: {place}"


def _fact(tag: str, fact: Fact, rank: Rank, detail: Detail) -> StateLine:
    if detail is Detail.MINIMAL:
        return StateLine(_element(tag, _clipped(fact.text, LINE_LIMIT)), rank, fact.text)
    told = f"{fact.text} ({fact.aside})" if fact.aside else fact.text
    return StateLine(_element(tag, told), rank, fact.text)


def _line(tag: str, text: str, rank: Rank, **attributes: str) -> StateLine:
    return StateLine(_element(tag, text, **attributes), rank, text)


# Elements are cached, because a long chapter has a thousand of them and a summary changes only a
# few.
@lru_cache(maxsize=16_384)
def _element(tag: str, text: str, **attributes: str) -> str:
    assert tag in ELEMENTS, "Others' texts could forge it."
    told = "".join(f" {name}={quoteattr(value)}" for name, value in attributes.items())
    return f"<{tag}{told}>{escape(text)}</{tag}>"


def _clipped(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    start = text[: limit - 1].rpartition(" ")[0] or text[: limit - 1]
    return f"{start}\N{HORIZONTAL ELLIPSIS}"


def _once(lines: list[StateLine]) -> list[StateLine]:
    """Return the lines without repetitions. If several lines say the same, the one with the highest
    rank stays."""
    kept: dict[str, int] = {}
    for at, line in enumerate(lines):
        key = line.said.casefold()
        if key not in kept or line.rank > lines[kept[key]].rank:
            kept[key] = at
    return [lines[at] for at in sorted(kept.values())]
