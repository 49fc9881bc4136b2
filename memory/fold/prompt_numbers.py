"""Reads the numbers of the prompts that the entries of a delta come from."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import groupby
from typing import Any

from memory.fold.records import Prompts

# The key of an entry's numbers.
AT = "at"
# The lists of a delta whose entries are plain texts, and the lists that have a number for each of
# these texts. The number 0 says nothing.
BESIDE_TEXTS = {
    "canon_locks": "canon_locks_at",
    "contradictions_or_questions": "contradictions_or_questions_at",
}
_NUMBERS = re.compile(r"\s*\d{1,9}(?:[\s,;]+\d{1,9})*\s*")


def numbers_in(value: Any) -> list[int]:
    """Return the whole numbers that a model wrote, in ascending order. They may be a list, a single
    number, or a text such as "3, 5"."""
    found: set[int] = set()
    for one in value if isinstance(value, list) else [value]:
        if isinstance(one, int) and not isinstance(one, bool):
            found.add(one)
        elif isinstance(one, str) and _NUMBERS.fullmatch(one):
            found.update(int(number) for number in re.findall(r"\d+", one))
    return sorted(found)


def from_prompts(value: Any, prompts: Prompts) -> Prompts:
    """Return the prompts of a block, with the numbers of the prompts that an entry comes from.
    Numbers of other prompts are ignored, as an imported block may have any."""
    numbers = (one for one in numbers_in(value) if one > 0 and prompts.first <= one <= prompts.last)
    return replace(prompts, at=tuple(numbers))


def of_each_text(payload: dict[str, Any], key: str, count: int, prompts: Prompts) -> list[Prompts]:
    """Return the prompts of each of the `count` texts under this key. If the list of numbers has
    another length than the list of texts, it is ignored, because it is not clear which text a
    number belongs to."""
    numbers = payload.get(BESIDE_TEXTS.get(key, ""))
    if not isinstance(numbers, list) or len(numbers) != count:
        return [prompts] * count
    return [from_prompts(one, prompts) for one in numbers]


def ranges_of(numbers: Iterable[int]) -> list[Prompts]:
    """Return the numbers, which are in order, as ranges: 3, 4, 5 and 9 are 3-5 and 9."""
    runs = groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0])
    found = []
    for _, run in runs:
        in_run = [number for _, number in run]
        found.append(Prompts(in_run[0], in_run[-1]))
    return found


def sources_of(*told: Prompts) -> list[Prompts]:
    """Return the prompts that these entries of memory come from, as ranges: the prompts that an
    entry names, or else all prompts that its block covers. No range is returned twice."""
    named = sorted({number for prompts in told for number in prompts.at})
    whole = {Prompts(one.first, one.last) for one in told if not one.at}
    return sorted({*ranges_of(named), *whole})
