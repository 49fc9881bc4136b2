"""How a chapter is divided for the narrator: one call where it fits, else scenes along memory.

Pure planning: sizes in, stretches of prompts out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Tokens that a word of English prose costs, with room to spare.
TOKENS_PER_WORD = 1.6
# A scene shorter than this reads like a note; neighbours are joined until they reach it.
MIN_SCENE_WORDS = 250


@dataclass(frozen=True)
class Scene:
    """Prompts `first` to `last`, to become about `target_words` words."""

    first: int
    last: int
    target_words: int


@dataclass(frozen=True)
class NarratorLimits:
    """What one call can take: tokens of transcript, and words of prose."""

    transcript_tokens: float
    words_per_call: int


def plan_scenes(
    chunks: Sequence[tuple[int, int]],
    prompt_tokens: Sequence[float],
    target_words: int,
    limits: NarratorLimits,
) -> list[Scene]:
    """Divide prompts 1 to n into scenes that each fit one call.

    `chunks` are the memory deltas as (first, last), tiling 1 to n, or none; `prompt_tokens[i]` is
    the size of prompt i + 1 with its reply.
    """
    count = len(prompt_tokens)

    def words_of(first: int, last: int) -> int:
        return max(1, round(target_words * (last - first + 1) / count))

    def fits(first: int, last: int) -> bool:
        tokens = sum(prompt_tokens[first - 1 : last])
        return tokens <= limits.transcript_tokens and words_of(first, last) <= limits.words_per_call

    if fits(1, count):
        return [Scene(1, count, target_words)]
    spans: list[tuple[int, int]] = []
    for chunk in chunks or [(1, count)]:
        for span in _split(chunk, fits):
            joined = (spans[-1][0], span[1]) if spans else span
            is_short = bool(spans) and words_of(*spans[-1]) < MIN_SCENE_WORDS
            if is_short and fits(*joined):
                spans[-1] = joined
            else:
                spans.append(span)
    return [Scene(first, last, words_of(first, last)) for first, last in spans]


def _split(span: tuple[int, int], fits: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Halve the span until each part fits; a single prompt is not divided."""
    first, last = span
    if first == last or fits(first, last):
        return [span]
    middle = (first + last) // 2
    return _split((first, middle), fits) + _split((middle + 1, last), fits)
