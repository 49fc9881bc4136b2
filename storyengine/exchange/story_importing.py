"""Imports a story from a file.

All chapters are stored under new ids and are invisible until the last row is stored. Then one
transaction stores their relations, and shows them.
"""

import uuid
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone

from memory.before.changes_before import CHOSEN
from sessions.chapter.stories import get_story
from sessions.chapter.storing_imports import importing
from sessions.models import CastMember, Session, Story
from storyengine.exchange.file_errors import BadChapterFile, in_story
from storyengine.exchange.file_reading import read_story_content
from storyengine.exchange.importing import check_world_of, first_rows, store_parts
from storyengine.exchange.invariants import check_invariants
from storyengine.exchange.story_file import StoryChapter, StoryContent, check_story
from storyengine.settings.import_limits import OVER_THE_NETWORK, Limits


@dataclass(frozen=True)
class _Stored:
    """A chapter that is stored and still invisible."""

    entry: StoryChapter
    session: Session
    cast: Sequence[CastMember]


def import_story(content: bytes, limits: Limits = OVER_THE_NETWORK) -> Story:
    """Import a story from a file. Raises BadChapterFile, and then nothing is stored."""
    story = read_story_content(content, limits)
    check_story(story)
    for at, one in enumerate(story.chapters):
        try:
            check_invariants(one.chapter)
            check_world_of(one.chapter)
        except BadChapterFile as error:
            raise in_story(error, at) from None
    return get_story(_store(story))


def _store(story: StoryContent) -> uuid.UUID:
    now = timezone.now()
    stored: dict[int, _Stored] = {}
    fields: dict[str, Any] = {"imported_at": now, "is_chosen": False}
    with ExitStack() as stack:
        # The chapters are shown in the opposite order of this list. The first chapter that is shown
        # at a place becomes the chosen one.
        order = sorted(range(len(story.chapters)), key=lambda at: story.chapters[at].is_chosen)
        for at in order:
            one = story.chapters[at]
            session, tab1, cast = first_rows(
                one.chapter,
                {
                    **fields,
                    "place": one.place,
                    "origin_title": one.origin_title,
                    "forked_at_prompt": one.forked_at_prompt,
                },
            )
            stack.enter_context(importing(session, tab1, cast))
            # The first chapter is stored together with the story.
            fields["story"] = session.story
            store_parts(session, one.chapter)
            stored[at] = _Stored(one, session, cast)
            _renew(stored)
        with transaction.atomic():
            _join(story, stored)
            stack.close()
    return stored[0].session.story_id


def _renew(stored: dict[int, _Stored]) -> None:
    """Renew the leases of all chapters that are stored."""
    keys = [one.session.pk for one in stored.values()]
    Session.everything.filter(pk__in=keys).update(updated_at=Now())


def _join(story: StoryContent, stored: dict[int, _Stored]) -> None:
    """Store the relations of the chapters and of their people."""
    Story.objects.filter(pk=stored[0].session.story_id).update(
        title=story.title, created_at=story.created_at, archived_at=story.archived_at
    )
    for one in stored.values():
        entry, session = one.entry, one.session
        session.origin = None if entry.origin is None else stored[entry.origin].session
        session.follows = None if entry.follows is None else stored[entry.follows].session
        if followed := entry.followed:
            chosen = "" if followed.chosen is None else str(stored[followed.chosen].session.pk)
            session.followed_state = followed.model_dump() | {CHOSEN: chosen}
        session.save(update_fields=["origin", "follows", "followed_state"])
        for member, origin in zip(one.cast, entry.people, strict=True):
            if origin is not None:
                member.origin = stored[origin.chapter].cast[origin.member]
        CastMember.objects.bulk_update(one.cast, ["origin"])
