"""A session to be played: beats of a Game Master, each with its reply.

A recorded session is a file of JSON lines. The first line has "roster" (names in slot order) and
"reference_summary" (a list of texts). Each further line has "slot", "gm" and "reply".
"""

import json
from dataclasses import dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from typing import Any

MAX_SLOTS = 7
WORLD_CHARACTERS = 5_000
CHAPTER_CHARACTERS = 4_000
IDENTITY_CHARACTERS = 1_500
SMALL_CHARACTERS = 1_500
# Each small world begins this many words after the previous one in the summary. The number is a
# prime number, so that no world repeats soon.
_SMALL_STEP = 37
SYNTHETIC_REPLY_WORDS = 60


@dataclass(frozen=True)
class Pair:
    """A beat, the slot of the character to whom it is addressed, and this character's reply."""

    slot: int
    beat: str
    reply: str


@dataclass(frozen=True)
class RecordedSession:
    """A session. If `is_made_up`, the targets for recorded sessions are not meant for it."""

    roster: tuple[str, ...]
    summary: str
    pairs: tuple[Pair, ...]
    is_made_up: bool = field(default=False, compare=False)

    def first(self, count: int) -> "RecordedSession":
        return replace(self, pairs=self.pairs[:count])


@dataclass(frozen=True)
class Setup:
    """The contents of Tab 1. The keys of identities and names are slots."""

    world_text: str
    chapter_text: str
    identities: dict[str, str]
    names: dict[str, str]

    def as_tab1(self) -> dict[str, Any]:
        """Return the contents of Tab 1 in the form that the API uses."""
        return {
            "world_text": self.world_text,
            "chapter_text": self.chapter_text,
            "selected_agent_slots": [int(slot) for slot in self.names],
            "agent_names": self.names,
            "agent_identity_text_by_slot": self.identities,
        }


def load_session(path: Path) -> RecordedSession:
    """Load a recorded session from a file. Raise ValueError or KeyError if the file has none."""
    with path.open(encoding="utf-8") as lines:
        header, *rows = (json.loads(line) for line in lines if line.strip())
    return RecordedSession(
        roster=tuple(str(name) for name in header["roster"][:MAX_SLOTS]),
        summary=" ".join(header["reference_summary"]),
        pairs=tuple(Pair(int(row["slot"]), row["gm"], row["reply"]) for row in rows),
    )


def write_session(session: RecordedSession, path: Path) -> None:
    header = {"roster": session.roster, "reference_summary": [session.summary]}
    rows = ({"slot": p.slot, "gm": p.beat, "reply": p.reply} for p in session.pairs)
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in (header, *rows))


def setup_of(session: RecordedSession) -> Setup:
    """Return a setup with a world, a chapter and identities of fixed lengths. They are cut from the
    session's summary, one after the other."""
    stock = cycle(session.summary + " ")

    def cut(size: int) -> str:
        return "".join(islice(stock, size)).strip().ljust(size, ".")

    slots = [str(slot) for slot in range(1, len(session.roster) + 1)]
    return Setup(
        world_text=cut(WORLD_CHARACTERS),
        chapter_text=cut(CHAPTER_CHARACTERS),
        identities={slot: cut(IDENTITY_CHARACTERS) for slot in slots},
        names=dict(zip(slots, session.roster, strict=True)),
    )


def small_setup_of(session: RecordedSession, number: int) -> Setup:
    """Return a setup with a small world and a scene, which are cut from the session's summary at
    whole words. Each number gives another part of the summary."""
    words = session.summary.split()
    stock = cycle(words)
    for _ in range(number * _SMALL_STEP % len(words)):
        next(stock)

    def cut() -> str:
        taken = [next(stock)]
        while sum(map(len, taken)) + len(taken) < SMALL_CHARACTERS:
            taken.append(next(stock))
        return " ".join(taken)

    names = {str(slot): name for slot, name in enumerate(session.roster, 1)}
    return Setup(world_text=cut(), chapter_text=cut(), identities={}, names=names)


def synthetic_session(pairs: int) -> RecordedSession:
    """Return a made-up session. It is always the same, and all its replies have the same number of
    words."""
    roster = ("Ashwin", "Berrin", "Calla", "Dorrit", "Edda", "Fenwick", "Gisla")
    summary = " ".join(beat_text(1_000 + n) for n in range(60))
    made = tuple(
        Pair(n % len(roster) + 1, beat_text(n), reply_text(n, SYNTHETIC_REPLY_WORDS))
        for n in range(pairs)
    )
    return RecordedSession(roster, summary, made, is_made_up=True)


# The lengths of these lists have no common divisor, so that sequences of words seldom repeat. A
# check for repeated prose would otherwise find repetitions in the made-up text.
_ADJECTIVES = (
    "wet", "narrow", "lantern-lit", "salted", "borrowed", "crooked", "silent", "painted",
    "hollow", "tarred", "forgotten", "cold", "patched",
)  # fmt: skip
_NOUNS = (
    "ferry", "ledger", "staircase", "bell", "pilot", "quay", "door", "rope", "chapel", "kettle",
    "shutter", "map", "lamp", "harbour", "cage", "boot", "tower",
)  # fmt: skip
_ADVERBS = (
    "slowly", "once more", "without warning", "again", "almost kindly", "at last", "quietly",
    "too late", "on purpose", "nearly", "by habit",
)  # fmt: skip
_HAPPENINGS = (
    "leans towards", "gives way to", "drowns out", "points at", "hides", "outlasts", "mocks",
    "follows", "remembers", "blocks", "uncovers", "belongs to", "waits for", "turns from",
    "swallows", "answers", "frightens", "carries", "divides",
)  # fmt: skip
_DEEDS = (
    "test", "lift", "circle", "push against", "listen at", "mark", "hold on to", "step round",
    "knock on", "search", "climb over", "tie off", "look behind", "point out", "wait beside",
    "ask about", "count", "steady", "reach for", "cover", "walk towards", "lean on", "let go of",
)  # fmt: skip


def beat_text(number: int) -> str:
    """Return a beat of a few sentences. Each number gives another beat."""
    told = " ".join(_happening(number * 3 + at) for at in range(3))
    return f"Bell {number + 1}. {told} What do you do?"


def reply_text(number: int, words: int) -> str:
    """Return a character's speech that has exactly this number of words."""
    spoken: list[str] = []
    at = number * 7
    while len(spoken) < words:
        spoken += _deed(at).split()
        at += 1
    return " ".join(spoken[:words]).rstrip(",.") + "."


def _happening(n: int) -> str:
    return (
        f"The {_ADJECTIVES[n % 13]} {_NOUNS[n % 17]} {_ADVERBS[n % 11]} {_HAPPENINGS[n % 19]} "
        f"the {_ADJECTIVES[(n * 5 + 2) % 13]} {_NOUNS[(n * 3 + 8) % 17]}."
    )


def _deed(n: int) -> str:
    return (
        f"I {_ADVERBS[(n * 2) % 11]} {_DEEDS[n % 23]} the {_ADJECTIVES[(n * 3) % 13]} "
        f"{_NOUNS[(n * 5 + 1) % 17]}, for the {_NOUNS[(n * 2 + 5) % 17]} "
        f"{_HAPPENINGS[(n * 7 + 3) % 19]} us all."
    )
