"""Divides a chapter into scenes for the narrator: one scene if it fits a call, else several.

Several scenes end where stretches of memory end. This module only calculates from sizes.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

# The tokens of a word of English prose, estimated high.
TOKENS_PER_WORD = 1.6
# Scenes with fewer words are joined with the next one, because they would read like notes.
MIN_SCENE_WORDS = 250


@dataclass(frozen=True)
class Scene:
    """Prompts `first` to `last`, to become about `target_words` words."""

    first: int
    last: int
    target_words: int


@dataclass(frozen=True)
class NarratorLimits:
    """The most tokens of transcript that a call can read, and words of prose that it can write."""

    transcript_tokens: float
    words_per_call: int


def plan_scenes(
    chunks: Sequence[tuple[int, int]],
    prompt_tokens: Sequence[float],
    target_words: int,
    limits: NarratorLimits,
) -> list[Scene]:
    """Divide prompts 1 to n into scenes that each fit one call.

    `chunks` are the stretches of memory as (first, last), which cover 1 to n without gaps, or there
    are none. `prompt_tokens[i]` is the size of prompt i + 1 with its reply, 0 for thoughts alone.
    """
    count = len(prompt_tokens)

    def told(first: int, last: int) -> int:
        return sum(map(bool, prompt_tokens[first - 1 : last]))

    all_told = max(1, told(1, count))

    def words_of(first: int, last: int) -> int:
        return max(1, round(target_words * told(first, last) / all_told))

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
            # Thoughts alone are no scene of their own, because there is nothing to tell of them.
            is_empty = bool(spans) and not (told(*span) and told(*spans[-1]))
            if is_empty or (is_short and fits(*joined)):
                spans[-1] = joined
            else:
                spans.append(span)
    return [Scene(first, last, words_of(first, last)) for first, last in spans]


def _split(span: tuple[int, int], fits: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Halve the span until each part fits or is a single prompt."""
    first, last = span
    if first == last or fits(first, last):
        return [span]
    middle = (first + last) // 2
    return _split((first, middle), fits) + _split((middle + 1, last), fits)
