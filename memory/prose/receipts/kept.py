"""Keeps the receipts of the paragraphs of a draft that the user left as they were."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from memory.models import NarrativeDraft
from memory.prose.receipts.matching import Confidence, Match


def keep_matches(
    old: Sequence[tuple[str, Match | None]], new: Sequence[str], same: dict[int, int]
) -> list[dict[str, Any]]:
    """Return the receipts that a newer text keeps, in the form that is stored. `old` are the
    paragraphs of the older text with their matches, and `new` are the paragraphs of the newer text.
    `same` maps the place of each unchanged paragraph in the newer text to its place in the older
    text.

    A paragraph that was moved keeps its receipt too.
    """
    moved: defaultdict[str, list[int]] = defaultdict(list)
    for place in sorted(set(range(len(old))) - set(same.values()), reverse=True):
        moved[old[place][0]].append(place)
    kept = []
    for place, text in enumerate(new):
        origin = same.get(place)
        if origin is None and moved[text]:
            origin = moved[text].pop()
        match = None if origin is None else old[origin][1]
        if match is not None:
            prompts, confidence = list(match.prompts), match.confidence.value
            kept.append({"paragraph": place + 1, "prompts": prompts, "confidence": confidence})
    return kept


def kept_matches(draft: NarrativeDraft) -> dict[int, Match]:
    """Return the receipts that the draft has kept, by the number of the paragraph."""
    return {
        one["paragraph"]: Match(tuple(one["prompts"]), Confidence(one["confidence"]))
        for one in draft.kept_receipts
    }
