"""Divides a chapter into scenes for the narrator.

A chapter that fits into one call is one scene. Otherwise the scenes end where stretches of memory
end. The division uses only the sizes of prompts.
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agents.prompting.layers import weigh
from memory.keeping import KeptRecent
from sessions.language.words import count_words
from sessions.models import Session
from sessions.record.chosen_events import chosen_events
from sessions.record.transcript import chosen_entries

# The number of tokens in a word of English prose. The true number is usually lower.
TOKENS_PER_WORD = 1.6
# The estimate of a text's tokens is meant to be too high. The estimate is multiplied by this
# fraction. Then a word of English has fewer tokens than TOKENS_PER_WORD, and a word of another
# script has about the tokens that it needs.
_ESTIMATED = 0.7
# The fewest words of a scene. A shorter scene would read like notes, so it is joined with the next.
MIN_SCENE_WORDS = 250
# The cache of weights for each chapter. A value also has the last prompt and the newest event that
# it was made for. The limit of the cache counts prompts.
_WeightsState = tuple[int, uuid.UUID | None]
_kept_weights: KeptRecent[uuid.UUID, tuple[_WeightsState, tuple[float, ...]]] = KeptRecent(32_768)


@dataclass(frozen=True)
class Scene:
    """The prompts `first` to `last`, which become a scene of about `target_words` words."""

    first: int
    last: int
    target_words: int


@dataclass(frozen=True)
class NarratorLimits:
    """The limits of one call: the tokens of its transcript, and the words of its prose."""

    transcript_tokens: float
    words_per_call: int


def tokens_per_word(text: str, weight_per_token: float) -> float:
    """Return how many tokens a word costs in the script of this text. In many scripts, a word costs
    more than a word of English."""
    estimated = _ESTIMATED * weigh(text) / weight_per_token
    return max(TOKENS_PER_WORD, estimated / max(count_words(text), 1))


def plan_scenes(
    chunks: Sequence[tuple[int, int]],
    prompt_tokens: Sequence[float],
    target_words: int,
    limits: NarratorLimits,
) -> list[Scene]:
    """Divide the prompts 1 to n into scenes that each fit into one call.

    `chunks` are the stretches of memory, each as (first, last). They cover the prompts 1 to n
    without gaps, or the list is empty. `prompt_tokens[i]` is the size of prompt i + 1 with its
    reply, and 0 if the turn has only thoughts.
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
            # The narrator gets no thoughts. So a span that has only thoughts is joined with its
            # neighbour.
            is_empty = bool(spans) and not (told(*span) and told(*spans[-1]))
            if is_empty or (is_short and fits(*joined)):
                spans[-1] = joined
            else:
                spans.append(span)
    return [Scene(first, last, words_of(first, last)) for first, last in spans]


def _split(span: tuple[int, int], fits: Callable[[int, int], bool]) -> list[tuple[int, int]]:
    """Halve the span until each part fits or has only one prompt. Return the parts."""
    first, last = span
    if first == last or fits(first, last):
        return [span]
    middle = (first + last) // 2
    return _split((first, middle), fits) + _split((middle + 1, last), fits)


def transcript_weights(chapter: Session, last: int) -> tuple[float, ...]:
    """Return the weights of the prompts up to prompt `last`, each with its reply. A turn that has
    only thoughts has the weight 0.

    The result is cached, because it is needed for each new target length, and because only the
    latest reply can change.
    """
    state = (last, chosen_events(chapter).values_list("pk", flat=True).last())
    kept = _kept_weights.get(chapter.pk)
    if kept is None or kept[0] != state:
        weights = [0.0] * last
        # The entry of a turn without words has a number but no text, so it is left out.
        for entry in filter(lambda one: one.text, chosen_entries(chapter, to_prompt=last)):
            weights[entry.prompt_index - 1] += weigh(entry.prefix) + weigh(entry.text)
        kept = (state, tuple(weights))
        _kept_weights.set(chapter.pk, kept, size=1 + len(kept[1]))
    return kept[1]
