"""Keeps the terms of a chapter's events in this process, so that a search reads only new events."""

import uuid
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from threading import Lock
from typing import Any

from memory.keeping import KeptRecent
from memory.recall.postings import Postings
from memory.recall.questions import Question, Reader
from memory.recall.ranking import Field
from sessions.language.stop_words import ENGLISH
from sessions.models import THOUGHT, Session
from sessions.record.chosen_events import chosen_events

_COLUMNS = (
    *("prompt_index", "kind", "witnesses"),
    *("terms__language", "terms__length", "terms__counts"),
)


class _RecordTerms:
    """The terms of the events up to the turn `until`. It is before the latest turn, so that no
    other attempt at these turns can be chosen any more."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.until = 0
        # The number of events that the chapter has up to this turn. Events of attempts that are not
        # chosen count too. If the number changes, the terms are read anew.
        self.events = 0
        self._numbers, self._lengths = array("I"), array("I")
        # The events of one group have the same witnesses and the same language, and either all or
        # none of them are thoughts.
        self._groups = array("I")
        self._group_numbers: dict[tuple[bool, tuple[int, ...], str], int] = {}
        self._postings: dict[str, Postings] = {}

    @property
    def size(self) -> int:
        return 1 + len(self._numbers) + sum(one.size for one in self._postings.values())

    def add(self, rows: Iterable[tuple[Any, ...]]) -> None:
        for number, kind, witnesses, language, length, counts in rows:
            group = (kind == THOUGHT, tuple(witnesses), language)
            self._postings.setdefault(language, Postings()).add(len(self._numbers), counts)
            self._numbers.append(number)
            self._lengths.append(length)
            self._groups.append(self._group_numbers.setdefault(group, len(self._group_numbers)))

    def read(self, reader: Reader, asked: Question, own: Field, languages: Counter[str]) -> None:
        """Add the texts that the reader witnessed to `own`, and their languages to `languages`."""
        groups = list(self._group_numbers)
        is_told = [
            reader.perceives(witnesses) and (reader.with_thoughts or not is_thought)
            for is_thought, witnesses, _ in groups
        ]
        # The events are in the order of their turns. A long chapter has very many events, so this
        # loop does little for each of them.
        numbers, lengths, found = self._numbers, own.lengths, own.found
        end = len(numbers) if reader.until is None else bisect_right(numbers, reader.until)
        is_read = [is_told[group] for group in self._groups[:end]]
        spoken = [0] * len(groups)
        for event in compress(range(end), is_read):
            number = numbers[event]
            lengths[number] = lengths.get(number, 0) + self._lengths[event]
            spoken[self._groups[event]] += 1
        for (_, _, language), count in zip(groups, spoken, strict=True):
            languages[language] += count
        for language, postings in self._postings.items():
            for event, word, count in postings.find(asked.words_by_term(language)):
                if event < end and is_read[event]:
                    counts = found.setdefault(numbers[event], {})
                    counts[word] = counts.get(word, 0) + count


# The cache of terms for each chapter. The limit of the cache is a number of terms of events. Each
# term takes eight bytes.
_kept: KeptRecent[uuid.UUID, _RecordTerms] = KeptRecent(3_000_000)


@dataclass(frozen=True)
class Record:
    """The texts of the turns that a reader witnessed, and the number of events in each language."""

    turns: Field
    languages: Counter[str]

    @property
    def language(self) -> str:
        """The language of most events."""
        spoken = self.languages
        return max(spoken, key=lambda one: (spoken[one], one), default=ENGLISH)


def read_record(reader: Reader, asked: Question) -> Record:
    """Return the texts of the turns that the reader witnessed."""
    chapter = reader.chapter
    own, languages = Field(), Counter[str]()
    terms = _terms_of(chapter)
    with terms.lock:
        terms.read(reader, asked, own, languages)
        until = terms.until
    if reader.until is None or reader.until > until:
        latest = _rows(chapter, from_prompt=until + 1, to_prompt=reader.until)
        for number, kind, witnesses, language, length, counts in latest:
            if reader.perceives(witnesses) and (reader.with_thoughts or kind != THOUGHT):
                own.add(number, length, asked.words_in(language, counts))
                languages[language] += 1
    return Record(own, languages)


def _terms_of(chapter: Session) -> _RecordTerms:
    """Return the terms of all turns before the latest one."""
    terms = _kept.get(chapter.pk) or _RecordTerms()
    with terms.lock:
        if _count_events(chapter, terms.until) != terms.events:
            terms = _RecordTerms()
        until = chapter.prompt_index - 1
        if until > terms.until:
            # The events are counted first. If an event is stored meanwhile, the next search reads
            # the terms anew.
            terms.events = _count_events(chapter, until)
            terms.add(_rows(chapter, from_prompt=terms.until + 1, to_prompt=until))
            terms.until = until
            _kept.set(chapter.pk, terms, size=terms.size)
    return terms


def _count_events(chapter: Session, until: int) -> int:
    return chapter.events.filter(prompt_index__lte=until).count() if until else 0


def _rows(chapter: Session, *, from_prompt: int, to_prompt: int | None) -> Iterator[Any]:
    events = chosen_events(
        chapter, from_prompt=from_prompt, to_prompt=to_prompt, with_thoughts=True
    ).filter(terms__isnull=False)
    return events.values_list(*_COLUMNS).iterator(chunk_size=500)
