"""The schema of a story's JSON file: its chapters, each in the form of version 2 of a chapter's
file, and their relations. docs/export.md describes the file for other programs.

Chapters and people are named by their places in the file. Deleted chapters are left out.
"""

from typing import Annotated, Final, Literal

from pydantic import Field

from sessions.limits import MAX_AGENTS, MAX_PEOPLE
from storyengine.exchange.chapter_file import Chapter
from storyengine.exchange.file_errors import refuse_story
from storyengine.exchange.file_parts import File, Number, OptionalTitle, Part, Time, keys_of

FORMAT: Final = "storyengine-story"
VERSION: Final = 2
# A file of a story has at most this many chapters, forks included.
MAX_CHAPTERS: Final = 200

_ChapterAt = Annotated[Number | None, Field(description="A place among the chapters.")]


class OriginEntry(Part):
    """The same person in an earlier chapter, by the places of the chapter and of the person in its
    cast."""

    chapter: Number
    member: Number


class FollowedEntry(Part):
    """How the chapter before stood when its memory was handed on (see
    memory.before.changes_before)."""

    chosen: _ChapterAt
    is_there: bool
    prompts: Number
    attempt: Number
    rulings: Number
    memory: Number


class StoryChapter(Part):
    place: Annotated[Number, Field(ge=1)]
    is_chosen: bool = Field(description="Whether the story goes by it among those at its place.")
    origin: _ChapterAt = Field(description="Of a fork the chapter that it was made from.")
    origin_title: OptionalTitle
    forked_at_prompt: Number
    follows: _ChapterAt = Field(description="The chapter before, from which it came.")
    followed: FollowedEntry | None
    people: Annotated[
        list[OriginEntry | None], Field(max_length=MAX_AGENTS + MAX_PEOPLE, fail_fast=True)
    ] = Field(description="The origin of each member of the cast, in the order of the cast.")
    chapter: Chapter


class StoryContent(Part):
    title: OptionalTitle = Field(description="Empty if the story is called as its first chapter.")
    created_at: Time
    archived_at: Time | None
    chapters: Annotated[
        list[StoryChapter], Field(min_length=1, max_length=MAX_CHAPTERS, fail_fast=True)
    ]


class StoryFile(File):
    format: Literal["storyengine-story"]
    version: Literal[2]
    exported_at: Time
    story: StoryContent


KNOWN_KEYS = keys_of(StoryFile, StoryContent, StoryChapter, OriginEntry, FollowedEntry)


def check_story(story: StoryContent) -> None:
    """Check that the chapters fit together. Raises BadChapterFile."""
    chosen: set[int] = set()
    for at, one in enumerate(story.chapters):
        place = f"chapters[{at}]"
        if one.is_chosen and one.place in chosen:
            refuse_story(f"{place}.is_chosen", "is true for two chapters of one place")
        if one.is_chosen:
            chosen.add(one.place)
        _check_origin(story, at)
        _check_follows(story, at)
        _check_people(story, at)
    for at, one in enumerate(story.chapters):
        if one.place not in chosen:
            refuse_story(f"chapters[{at}].is_chosen", "is true for no chapter of its place")


def _check_origin(story: StoryContent, at: int) -> None:
    one, place = story.chapters[at], f"chapters[{at}]"
    if one.forked_at_prompt > one.chapter.prompt_index:
        refuse_story(f"{place}.forked_at_prompt", "is beyond the chapter's last prompt")
    if one.origin is None:
        return
    if one.origin >= len(story.chapters) or one.origin == at:
        refuse_story(f"{place}.origin", "is no other chapter of the file")
    if story.chapters[one.origin].place != one.place or not one.forked_at_prompt:
        refuse_story(f"{place}.origin", "is no chapter that this one is a fork of")


def _check_follows(story: StoryContent, at: int) -> None:
    one, place = story.chapters[at], f"chapters[{at}]"
    for name, key in (
        ("follows", one.follows),
        ("followed.chosen", one.followed.chosen if one.followed else None),
    ):
        if key is not None and (
            key >= len(story.chapters) or story.chapters[key].place >= one.place
        ):
            refuse_story(f"{place}.{name}", "is no chapter before this one")


def _check_people(story: StoryContent, at: int) -> None:
    one, place = story.chapters[at], f"chapters[{at}].people"
    if len(one.people) != len(one.chapter.cast):
        refuse_story(place, "must have an entry for each member of the cast")
    for number, origin in enumerate(one.people):
        if origin is None:
            continue
        if (
            origin.chapter >= len(story.chapters)
            or story.chapters[origin.chapter].place >= one.place
            or origin.member >= len(story.chapters[origin.chapter].chapter.cast)
        ):
            refuse_story(f"{place}[{number}]", "is nobody of a chapter before this one")
