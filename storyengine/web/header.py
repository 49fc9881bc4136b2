"""The context of the header of a chapter's pages, with the title, the saved state, the tabs and the
meter."""

from functools import partial
from typing import Any

from django.db.models import Exists, OuterRef

from agents.calling.model_access import provider_label, unknown_models
from agents.calling.spending import spending_of, uncapped_models
from agents.modes.declaration import Stage
from agents.modes.registry import agents_in, find_mode
from memory.before.changes_before import changes_before
from sessions.chapter.stories import title_of
from sessions.models import Session, Story


def story_of(chapter: Session) -> str:
    """Return the title of the chapter's story, or "" if the chapter is the only one of a story with
    the same title."""
    others = Session.objects.filter(story=OuterRef("pk")).exclude(place=chapter.place)
    story = Story.objects.annotate(has_others=Exists(others)).get(pk=chapter.story_id)
    if not story.has_others and story.title in ("", chapter.title):
        return ""
    return title_of(story)


def header_context(chapter: Session, tab: str) -> dict[str, Any]:
    """Return the context of `_chapter_header.html`. `tab` is "world", "play" or "chapter"."""
    # This call comes first, because it reads the choices and servers that the prices below depend
    # on.
    agents = agents_in(chapter)
    model = provider_label(agents)
    return {
        "chapter": chapter,
        "tab": tab,
        # The value is a function, because most parts of pages do not show it.
        "story_title": partial(story_of, chapter),
        "stages": mode.stages if (mode := find_mode(chapter.mode)) else frozenset(Stage),
        "spending": spending_of(chapter.pk),
        "model": model,
        "unknown_models": unknown_models(agents),
        "uncapped_models": uncapped_models(agents),
        "changes_before": changes_before(chapter),
    }
