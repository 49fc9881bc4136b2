"""Finds the sentences of a turn, and the events of memory, that the paragraphs of a draft do not
tell."""

from collections.abc import Sequence
from itertools import chain

from memory.prose.receipts.stems import stems_of
from sessions.language.sentences import split_sentences
from sessions.language.words import words_of

# A sentence or an event is told if at least this fraction of its stems stands in the paragraphs.
# Half of the stems would be too many, because a narrator uses other words.
_ENOUGH = 0.34
# A sentence with fewer stems cannot be judged.
_LEAST_STEMS = 3
# At most this many neighbouring paragraphs together may tell an event.
_TOGETHER = 3


def says_nothing(text: str) -> bool:
    """Return whether the text has no word that could show that a paragraph tells it."""
    return not _stems(text)


def untold_sentences(texts: Sequence[str], paragraphs: Sequence[str]) -> list[str]:
    """Return the sentences of the texts that the paragraphs do not tell."""
    told = set().union(*map(_stems, paragraphs))
    sentences = chain.from_iterable(map(split_sentences, texts))
    return [
        sentence.strip()
        for sentence in sentences
        if len(stems := _stems(sentence)) >= _LEAST_STEMS
        and len(stems & told) < _ENOUGH * len(stems)
    ]


def untold_events(events: Sequence[str], paragraphs: Sequence[str]) -> list[str]:
    """Return the events that are not told by neighbouring paragraphs. An event whose words say
    nothing counts as told."""
    told = [_stems(paragraph) for paragraph in paragraphs]

    def is_told(event: str) -> bool:
        stems = _stems(event)
        shared = [stems & of_paragraph for of_paragraph in told]
        rows = (set().union(*shared[at : at + _TOGETHER]) for at in range(len(shared)))
        return max(map(len, rows), default=0) >= _ENOUGH * len(stems)

    return [event for event in events if not is_told(event)]


def _stems(text: str) -> set[str]:
    return set(stems_of(words_of(text)))
