"""Says which texts have a term, and how often, without reading the texts again."""

from array import array
from collections.abc import Iterator, Mapping


class Postings:
    """The texts that have each term. A text is a number, and texts are only added."""

    def __init__(self) -> None:
        # The number of a text and its count of the term, one after the other. A list of pairs would
        # take ten times the memory.
        self._by_term: dict[str, array[int]] = {}
        # How often a text was added under a term.
        self.size = 0

    def add(self, text: int, counts: Mapping[str, int]) -> None:
        for term, count in counts.items():
            self._by_term.setdefault(term, array("I")).extend((text, count))
        self.size += len(counts)

    def find(self, words_by_term: Mapping[str, str]) -> Iterator[tuple[int, str, int]]:
        """Yield each text that has one of the terms, with the word that belongs to the term and how
        often the text has it."""
        for term in words_by_term.keys() & self._by_term.keys():
            found, word = self._by_term[term], words_by_term[term]
            for text, count in zip(found[::2], found[1::2], strict=True):
                yield text, word, count
