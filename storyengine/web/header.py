"""What the slim header of a chapter shows: title, saved state, tabs, meter."""

from typing import Any

from agents.calling.model_access import provider_label, unknown_models
from agents.calling.spending import spending_of, uncapped_models
from sessions.models import Session


def header_context(chapter: Session, tab: str) -> dict[str, Any]:
    """The context of `_chapter_header.html`; `tab` is "world", "play" or "chapter"."""
    return {
        "chapter": chapter,
        "tab": tab,
        "spending": spending_of(chapter.pk),
        "model": provider_label(),
        "unknown_models": unknown_models(),
        "uncapped_models": uncapped_models(),
    }
