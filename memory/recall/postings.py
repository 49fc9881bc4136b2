"""Says which texts have a term, and how often, without reading the texts again."""

from array import array
from collections.abc import Iterator, Mapping


class Postings:
    """For each term, the texts that have it. A text is named by a number. Texts are only added,
    never removed."""

    def __init__(self) -> None:
        # The number of a text and its count of the term, one after the other. A list of pairs would
        # take ten times the memory.
        self._by_term: dict[str, array[int]] = {}
        # The number of entries: one for each text under each of its terms.
        self.size = 0

    def add(self, text: int, counts: Mapping[str, int]) -> None:
        for term, count in counts.items():
            self._by_term.setdefault(term, array("I")).extend((text, count))
        self.size += len(counts)

    def find(self, words_by_term: Mapping[str, str]) -> Iterator[tuple[int, str, int]]:
        """Yield each text that has a term of one of the words, with the word and with the count of
        the term in the text."""
        terms: dict[str, list[str]] = {}
        for term in words_by_term.keys() & self._by_term.keys():
            terms.setdefault(words_by_term[term], []).append(term)
        for word, its_terms in terms.items():
            counts: dict[int, int] = {}
            for term in its_terms:
                found = self._by_term[term]
                for text, count in zip(found[::2], found[1::2], strict=True):
                    counts[text] = max(count, counts.get(text, 0))
            for text, count in counts.items():
                yield text, word, count
