"""Finds the passages of a chapter that a question is about, in the record and in memory."""

from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from memory.memory_terms import count_terms, rank_memory
from memory.places import places_of_turns
from memory.questions import Question, Reader
from memory.ranking import Field, rank
from memory.record_terms import read_record
from memory.telling.session_state import StateLine
from sessions.transcript import Entry, chosen_entries

__all__ = ["ELEMENTS_OF_NOW", "Passage", "Reader", "recall"]

# The elements of the lines that say how things stand: the state of the world, threads with how they
# ended, and canon.
ELEMENTS_OF_NOW = frozenset(
    ("now", "where", "location", "around", "open", "closed", "unclear", "canon", "boundary")
)

# The words before a line of memory, by its element. Other lines say by themselves what they are.
_LEADS = {
    "boundary": "boundary",
    "canon": "canon",
    "closed": "closed thread",
    "found": "found",
    "now": "how it stands",
    "open": "open thread",
    "unclear": "unclear",
    "was": "no longer so",
}


@dataclass(frozen=True)
class Passage:
    """A turn that was found, or a line of memory.

    Of a turn, `entries` has as much of its prompt and its replies as the reader witnessed. Of
    memory, `line` says something about prompts of which `prompt_index` is the last one, or the lock
    says it and `prompt_index` is 0. `reader_name` is the name of the reader who is told, or None if
    everything is told.
    """

    prompt_index: int
    score: float
    entries: tuple[Entry, ...] = ()
    line: StateLine | None = None
    reader_name: str | None = None

    @cached_property
    def text(self) -> str:
        """The turn as the transcript has it, or the line of memory as people read it."""
        if self.line is None:
            return "\n\n".join(entry.rendered for entry in self.entries)
        line = self.line
        told = line.intended if line.is_more_for(self.reader_name) else line.said
        lead = f"{_LEADS[line.tag]}: " if line.tag in _LEADS else ""
        return f"Memory, {line.block.lower()}: {lead}{told}"


def recall(reader: Reader, question: str, k: int, *, k_of_now: int = 0) -> list[Passage]:
    """Return the best `k` passages that the question is about, and beyond them the best `k_of_now`
    lines of memory that say how things stand, all of them best first.

    The question is words; no sign in it has a meaning. A turn is found by its own words, and less
    by those of the turn before and by its place and time. A line of memory is found by its own
    words. Of equals, the earlier one comes first. Attempts that are not chosen are not found, and
    neither is what the Game Master withdrew from memory.
    """
    asked = Question(question)
    own, language = read_record(reader, asked)
    found: list[tuple[float, int, StateLine | None]] = [
        (score, number, None)
        for number, score in rank(own, _read_places(reader, asked, own, language))
    ]
    found += [(score, line.prompt, line) for line, score in rank_memory(reader, asked, language)]
    # The sort is stable: a turn comes before memory of it, and lines keep the order of memory.
    ranked = sorted(found, key=lambda one: (-one[0], one[1]))
    of_now = (one for one in ranked if one[2] and one[2].tag in ELEMENTS_OF_NOW)
    always = set(map(id, islice(of_now, k_of_now)))
    best = [one for at, one in enumerate(ranked) if at < k or id(one) in always]
    entries = _read_entries(reader, [number for _, number, line in best if line is None])
    name = reader.name
    return [
        Passage(number, score, () if line else tuple(entries.get(number, ())), line, name)
        for score, number, line in best
    ]


def _read_places(reader: Reader, asked: Question, own: Field, language: str) -> Field:
    """Return the places and times of the turns that the reader witnessed."""
    before = None if reader.until is None else reader.until + 1
    places = Field()
    told = places_of_turns(reader.chapter, before=before, readers=reader.readers)
    for first, last, text in told:
        counts = count_terms(text, language)
        length, found = counts.total(), asked.words_in(language, counts)
        for number in range(first, last + 1):
            if number in own.lengths:
                places.add(number, length, found)
    return places


def _read_entries(reader: Reader, numbers: list[int]) -> dict[int, list[Entry]]:
    found: dict[int, list[Entry]] = {}
    if numbers:
        for entry in chosen_entries(
            reader.chapter,
            perceived=reader.perceives,
            with_thoughts=reader.with_thoughts,
            prompts=numbers,
        ):
            found.setdefault(entry.prompt_index, []).append(entry)
    return found
