"""Makes figures of the requests to characters: their cost, and whether the last request has the
whole memory."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from html import unescape

from bench.harness import Figure

# A provider caches the start of a request if it has at least this many characters, which are about
# 1,024 tokens.
LEAST_CACHED = 4_096
# A character outside the provider's cache costs this many times as much as a character in the
# cache.
CACHE_DISCOUNT = 10
# The targets below are for a recorded session with this many prompts.
TARGET_PROMPTS = 84
MOST_CHARACTERS = 1_450_000
MOST_COST = 450_000
LEAST_SHARE = 0.72


def prompt_figures(prompts: Sequence[str], *, pairs: int) -> list[Figure]:
    """Return the figures of the requests, which are in the order in which they were sent. They have
    targets only if `pairs`, the prompts of a recorded session, are TARGET_PROMPTS."""
    total = sum(map(len, prompts))
    cached = sum(cached_starts(prompts))
    share = cached / total
    cost = total - cached + cached / CACHE_DISCOUNT
    repeated, least = "- share that repeats an earlier start", f"at least {LEAST_SHARE}"
    named = [
        Figure.at_most("Characters sent in character prompts", total, MOST_CHARACTERS),
        Figure(repeated, share, f"{share:.3f}", least, share >= LEAST_SHARE),
        Figure.at_most("- cost, a repeated character counting as 1/10", cost, MOST_COST, "{:,.0f}"),
    ]
    if pairs != TARGET_PROMPTS:
        named = [Figure(one.name, one.measured, one.value) for one in named]
    longest = max(map(len, prompts))
    shown = f"{longest:,} (the first: {len(prompts[0]):,})"
    return [*named, Figure("- the longest prompt", longest, shown)]


def remembered_figure(facts: Mapping[str, Sequence[str]], prompt: str) -> Figure:
    """Return the figure. `facts` maps a name to texts: the present canon, and the open threads."""
    missing = {name: _missing(texts, prompt) for name, texts in facts.items()}
    counted = (
        f"{len(texts) - len(missing[name])} of {len(texts)} {name}" for name, texts in facts.items()
    )
    lost = [text for texts in missing.values() for text in texts]
    shown = f" (missing: {lost[0][:60]!r})" if lost else ""
    has_all = not lost and any(facts.values())
    name, told = "Memory in the last character prompt", ", ".join(counted) + shown
    return Figure(name, len(lost), told, "all", has_all)


def cached_starts(prompts: Sequence[str]) -> list[int]:
    """Return for each request the number of characters at its start that a provider would have in
    its cache."""
    # The earlier requests are sorted, so that the one with the longest common start is next to the
    # new request.
    earlier: list[str] = []
    lengths = []
    for prompt in prompts:
        at = bisect_left(earlier, prompt)
        beside = earlier[max(at - 1, 0) : at + 1]
        length = max((_shared_start(prompt, one) for one in beside), default=0)
        lengths.append(length if length >= LEAST_CACHED else 0)
        earlier.insert(at, prompt)
    return lengths


def _shared_start(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _missing(texts: Sequence[str], prompt: str) -> list[str]:
    """Return the texts that the request lacks, with and without XML's escapes."""
    said = (_plain(prompt), _plain(unescape(prompt)))
    return [text for text in texts if not any(_plain(text) in one for one in said)]


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
