"""Reads a file that nobody has checked, and returns a chapter that can be stored.

If a file is refused, the message says what is wrong and at which place of the file.
"""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from sessions.models import DEFAULT_MODE
from sessions.payloads import MAX_KEYS, problem_in_words
from storyengine.exchange import chapter_file, story_file
from storyengine.exchange.chapter_file import FORMAT, Chapter, ChapterFile
from storyengine.exchange.file_errors import (
    ARCHIVE,
    NEWER,
    NO_CHAPTER,
    OLDER,
    BadChapterFile,
    BeyondLimits,
    ChapterFileTooLarge,
    in_story,
    refuse,
)
from storyengine.exchange.file_parts import TOO_MANY
from storyengine.exchange.invariants import check_invariants
from storyengine.exchange.mode_rules import mode_named
from storyengine.exchange.story_file import StoryContent, StoryFile
from storyengine.settings.import_limits import OVER_THE_NETWORK, Limits, count_entries

_KNOWN_KEYS = chapter_file.KNOWN_KEYS | story_file.KNOWN_KEYS
_MODE_NAME = re.compile("[a-z][a-z0-9_]{0,39}")
_ARCHIVES = (b"PK", b"\x1f\x8b", b"7z\xbc\xaf", b"Rar!", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")

_OWN_PROBLEMS = frozenset(
    {
        *("not_text", "not_a_line", "no_words", "no_name", "not_storable", "payload_too_long"),
        *("not_a_time", "not_a_tag", TOO_MANY),
    }
)


def check_size(size: int, limits: Limits = OVER_THE_NETWORK) -> None:
    """Raise ChapterFileTooLarge if a file has more bytes than the limits allow."""
    if size > limits.file_bytes:
        most = f"{limits.file_bytes:,} bytes, the most that can be imported here"
        raise ChapterFileTooLarge(f"The file is larger than {most}", limits)


def read_chapter_file(content: bytes, limits: Limits = OVER_THE_NETWORK) -> Chapter:
    """Read the file of a chapter. Raises BadChapterFile."""
    check_size(len(content), limits)
    data = _read_json(content, limits)
    _check_version(data)
    _check_mode(data)
    _check_totals(data, limits)
    with _refusing(limits):
        chapter = ChapterFile.model_validate(data, context={"limits": limits}).chapter
    check_invariants(chapter)
    return chapter


def read_story_content(content: bytes, limits: Limits = OVER_THE_NETWORK) -> StoryContent:
    """Read the file of a story. The contents of the chapters, and their relations, are not checked
    yet. Raises BadChapterFile."""
    check_size(len(content), limits)
    data = _read_json(content, limits)
    if not isinstance(data, dict) or data.get("format") != story_file.FORMAT:
        problem = f'The file is no exported story: it lacks "format": "{story_file.FORMAT}"'
        raise BadChapterFile(problem, NO_CHAPTER)
    version = data.get("version")
    if isinstance(version, int) and version > story_file.VERSION:
        problem = f"This program reads version {story_file.VERSION} of a story's file"
        raise BadChapterFile(f"{problem}, and the file is of a later one", NEWER)
    story = data.get("story")
    chapters = story.get("chapters") if isinstance(story, dict) else None
    if isinstance(chapters, list):
        if len(chapters) > story_file.MAX_CHAPTERS:
            most = f"{story_file.MAX_CHAPTERS:,} entries"
            raise BeyondLimits(f"story.chapters has more than {most}", limits)
        for at, one in enumerate(chapters):
            if isinstance(one, dict):
                try:
                    _check_mode(one)
                    _check_totals(one, limits)
                except BadChapterFile as error:
                    raise in_story(error, at) from None
    with _refusing(limits):
        return StoryFile.model_validate(data, context={"limits": limits}).story


def is_story(content: bytes) -> bool:
    """Return whether this is the file of a story, as far as its first characters say it. Story
    Engine writes the format first."""
    return f'"{story_file.FORMAT}"'.encode() in content[:200]


@contextmanager
def _refusing(limits: Limits) -> Iterator[None]:
    """Raise BadChapterFile for the first problem that pydantic finds."""
    try:
        yield
    except ValidationError as error:
        first, *_ = error.errors(include_url=False, include_input=False)
        if first["type"] == TOO_MANY:
            raise BeyondLimits(_describe(first), limits) from None
        raise BadChapterFile(_describe(first)) from None


def _read_json(content: bytes, limits: Limits) -> Any:
    if content.startswith(_ARCHIVES):
        problem = "The file is an archive. Unpack it and choose the JSON file in it"
        raise BadChapterFile(problem, ARCHIVE)
    if sum(content.count(separator) for separator in (b"[", b"{", b",")) > limits.separators:
        raise BeyondLimits("The file holds more values than any chapter", limits)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start + 1:,}"
        raise BadChapterFile(f"The file is not UTF-8 text (at {place})", NO_CHAPTER) from None
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_read_object)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno:,}, column {error.colno:,}"
        raise BadChapterFile(f"The file is not JSON (at {place})", NO_CHAPTER) from None
    except RecursionError:
        raise BadChapterFile("The file is nested too deeply") from None
    except ValueError:
        # This error comes from Python, which refuses to read a number with thousands of digits.
        raise BadChapterFile("A number in the file has too many digits") from None


def _refuse_constant(name: str) -> NoReturn:
    raise BadChapterFile(f"The file is not JSON: {name} is no number")


def _read_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise BadChapterFile(f"An object in the file has more than {MAX_KEYS:,} keys")
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            name = f"the key {key}" if key in _KNOWN_KEYS else "one key"
            raise BadChapterFile(f"An object in the file has {name} twice")
        found[key] = value
    return found


def _check_version(data: object) -> None:
    """Check that the file is of the version that this program reads. Other fields are read
    afterwards, because each version has different fields."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        problem = f'The file is no exported chapter: it lacks "format": "{FORMAT}"'
        raise BadChapterFile(problem, NO_CHAPTER)
    version = data.get("version")
    if isinstance(version, bool) or not isinstance(version, int):
        raise BadChapterFile("version must be a whole number")
    if version != chapter_file.VERSION:
        is_later = version > chapter_file.VERSION
        raise BadChapterFile(
            f"This program reads version {chapter_file.VERSION} of the format, and the file is of "
            f"{'a later' if is_later else 'an earlier'} one",
            NEWER if is_later else OLDER,
        )


def _check_mode(data: dict[str, Any]) -> None:
    """Check that the chapter's mode is installed. Other fields are read afterwards, because they
    depend on the mode."""
    chapter = data.get("chapter")
    mode = chapter.get("mode", DEFAULT_MODE) if isinstance(chapter, dict) else DEFAULT_MODE
    if not isinstance(mode, str) or not _MODE_NAME.fullmatch(mode):
        refuse("mode", "must be the name of a way to play")
    mode_named(mode)


def _check_totals(data: dict[str, Any], limits: Limits) -> None:
    """Check the numbers of entries in the whole file before the entries are parsed, because parsing
    takes far more memory."""
    counts = count_entries(data.get("chapter"))
    for name in ("attempts", "events", "changes"):
        most = getattr(limits, name)
        if counts[name] > most:
            problem = f"chapter.turns have more than {most:,} {name} together"
            raise BeyondLimits(problem, limits)


def _describe(details: ErrorDetails) -> str:
    """Return a sentence about one problem: its place in the file and what is wrong there, without
    the file's own text."""
    kind = details["type"]
    problem = details["msg"] if kind in _OWN_PROBLEMS else problem_in_words(details)
    return f"{_place(details['loc'])} {problem}"


def _place(loc: tuple[int | str, ...]) -> str:
    """Return a place in the form `chapter.events[16].text`. Entries are counted from 0. An unknown
    key is shown as `?`."""
    place = ""
    for part in loc:
        if isinstance(part, int):
            place += f"[{part}]"
        else:
            place += f".{part}" if part in _KNOWN_KEYS else ".?"
    return place.removeprefix(".") or "The file"
