"""Exports a story as one file."""

import uuid
from collections.abc import Mapping
from typing import Any

from django.utils import timezone

from memory.before.changes_before import CHOSEN
from sessions.chapter.stories import chapters_of, get_story
from sessions.models import CastMember, Session
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.story_file import (
    FORMAT,
    VERSION,
    FollowedEntry,
    OriginEntry,
    StoryChapter,
    StoryContent,
    StoryFile,
)


def export_story(story_id: uuid.UUID) -> StoryFile:
    """Return the story as a file, without deleted chapters. Raises UnknownStory.

    Each chapter is as it is at one moment. The limits of files are not checked.
    """
    story = get_story(story_id)
    chapters = chapters_of(story)
    files = {one.pk: export_chapter(one.pk).chapter for one in chapters}
    places = {one.pk: at for at, one in enumerate(chapters)}
    people = {
        member.pk: OriginEntry.model_construct(chapter=at, member=number)
        for at, one in enumerate(chapters)
        for number, member in enumerate(one.cast)
    }
    content = StoryContent.model_construct(
        title=story.title,
        created_at=story.created_at,
        archived_at=story.archived_at,
        chapters=[
            StoryChapter.model_construct(
                place=one.place,
                is_chosen=one.is_chosen,
                origin=_place_of(one.origin_id, places),
                origin_title=one.origin_title,
                forked_at_prompt=one.forked_at_prompt,
                follows=_place_of(one.follows_id, places),
                followed=_followed(one, places),
                people=[_origin(member, people) for member in one.cast],
                chapter=files[one.pk],
            )
            for one in chapters
        ],
    )
    return StoryFile.model_construct(
        format=FORMAT, version=VERSION, exported_at=timezone.now(), story=content
    )


def _place_of(key: uuid.UUID | None, places: Mapping[uuid.UUID, int]) -> int | None:
    return None if key is None else places.get(key)


def _origin(member: CastMember, people: Mapping[uuid.UUID, OriginEntry]) -> OriginEntry | None:
    return people.get(member.origin_id) if member.origin_id else None


def _followed(chapter: Session, places: Mapping[uuid.UUID, int]) -> FollowedEntry | None:
    if chapter.followed_state is None:
        return None
    state: dict[str, Any] = dict(chapter.followed_state)
    chosen = state.pop(CHOSEN)
    at = places.get(uuid.UUID(chosen)) if chosen else None
    return FollowedEntry.model_construct(chosen=at, **state)
