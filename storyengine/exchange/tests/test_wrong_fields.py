"""Tests that the message about a refused file names the wrong field, and that nothing is
imported."""

from collections.abc import Callable
from typing import Any

import pytest

from storyengine.exchange.tests.refusals import SECRET, File, as_bytes, good_file, refusal

pytestmark = pytest.mark.django_db


def put(*path: str | int, to: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        part: Any = file
        for key in path[:-1]:
            part = part[key]
        part[path[-1]] = to

    return change


def drop(*path: str | int) -> Callable[[File], None]:
    def change(file: File) -> None:
        part: Any = file
        for key in path[:-1]:
            part = part[key]
        del part[path[-1]]

    return change


def chapter(*path: str | int, to: Any) -> Callable[[File], None]:
    return put("chapter", *path, to=to)


def attempt(*path: str | int, to: Any) -> Callable[[File], None]:
    """Return a function that sets a field of the first attempt at the first turn."""
    return chapter("turns", 0, "attempts", 0, *path, to=to)


def event(number: int, name: str, to: Any) -> Callable[[File], None]:
    return attempt("events", number, name, to=to)


def nested(depth: int) -> Any:
    value: Any = SECRET
    for _ in range(depth):
        value = [value]
    return value


FIELDS: dict[str, tuple[Callable[[File], None], str]] = {
    "a later version": (
        put("version", to=3),
        "reads version 2 of the format, and the file is of",
    ),
    "version 1": (put("version", to=1), "the file is of an earlier one"),
    "version true": (put("version", to=True), "version must be a whole number"),
    "version as text": (put("version", to="1"), "version must be a whole number"),
    "no version": (drop("version"), "version must be a whole number"),
    "an unknown key": (put("chapter", SECRET, to=1), "chapter.? is no key of this format"),
    "an unknown key that is no text": (
        put("chapter", SECRET + "\ud800", to=1),
        "chapter holds characters that are not text",
    ),
    "a missing key": (drop("chapter", "turns"), "chapter.turns is missing"),
    "a missing field": (
        drop("chapter", "turns", 3, "attempts", 0, "events", 1, "text"),
        "chapter.turns[3].attempts[0].events[1].text is missing",
    ),
    "a chapter as text": (put("chapter", to=SECRET), "chapter must be an object"),
    "turns as an object": (chapter("turns", to={}), "chapter.turns must be a list"),
    "a turn as a list": (chapter("turns", 0, to=[]), "chapter.turns[0] must be an object"),
    "a turn as text": (chapter("turns", 0, to=SECRET), "chapter.turns[0] must be an object"),
    "attempts as text": (
        chapter("turns", 0, "attempts", to=SECRET),
        "chapter.turns[0].attempts must be a list",
    ),
    "no attempts": (
        chapter("turns", 0, "attempts", to=[]),
        "chapter.turns[0].attempts must have an entry",
    ),
    "an attempt as a number": (
        chapter("turns", 0, "attempts", 0, to=7),
        "chapter.turns[0].attempts[0] must be an object",
    ),
    "events as an object": (
        attempt("events", to={}),
        "chapter.turns[0].attempts[0].events must be a list",
    ),
    "an event as a list": (
        attempt("events", 0, to=[]),
        "chapter.turns[0].attempts[0].events[0] must be an object",
    ),
    "a kind of nothing": (
        attempt("kind", to=SECRET),
        "chapter.turns[0].attempts[0].kind must be 'prompt', 'reroll', 'trial' or 'edit'",
    ),
    "words of space": (
        attempt("words", to=" \n"),
        "chapter.turns[0].attempts[0].words must not be empty",
    ),
    "long words": (
        attempt("words", to="x" * 5_001),
        "chapter.turns[0].attempts[0].words is longer than 5,000 characters",
    ),
    "an actor of none": (attempt("actor", to=0), "attempts[0].actor must be at least 1"),
    "witnesses as text": (
        attempt("witnesses", to=SECRET),
        "chapter.turns[0].attempts[0].witnesses must be a list",
    ),
    "a witness of none": (
        attempt("witnesses", to=[608]),
        "chapter.turns[0].attempts[0].witnesses[0] must be at most 607",
    ),
    "many witnesses": (
        attempt("witnesses", to=[1] * 608),
        "chapter.turns[0].attempts[0].witnesses has more than 607 entries",
    ),
    "an event that names no witnesses": (
        event(0, "witnesses", None),
        "chapter.turns[0].attempts[0].events[0].witnesses must be a list",
    ),
    "a given text": (
        attempt("given", to=SECRET),
        "chapter.turns[0].attempts[0].given must be an object",
    ),
    "a deep given object": (
        attempt("given", to={"x": nested(60)}),
        "chapter.turns[0].attempts[0].given cannot be stored: the JSON object is nested too deeply",
    ),
    "an attempt that was not committed": (
        attempt("committed_at", to=None),
        "chapter.turns[0].attempts[0].committed_at must be a time",
    ),
    "a chosen one below all": (
        chapter("turns", 0, "chosen", to=-1),
        "chapter.turns[0].chosen must be at least 0",
    ),
    "no mode": (drop("chapter", "mode"), "chapter.mode is missing"),
    "a mode that is not installed": (
        chapter("mode", to="table_of_dice"),
        'chapter.mode is "table_of_dice", a way to play that is not installed here',
    ),
    "a mode that is no name": (
        chapter("mode", to=SECRET),
        "chapter.mode must be the name of a way to play",
    ),
    "a mode of markup": (
        chapter("mode", to="<script>"),
        "chapter.mode must be the name of a way to play",
    ),
    "a mode of two lines": (
        chapter("mode", to="gamemaster\n"),
        "chapter.mode must be the name of a way to play",
    ),
    "a long mode": (
        chapter("mode", to="a" * 41),
        "chapter.mode must be the name of a way to play",
    ),
    "a mode as a list": (
        chapter("mode", to=[SECRET]),
        "chapter.mode must be the name of a way to play",
    ),
    "another mode's content": (
        chapter("mode_content", to={SECRET: {}}),
        "chapter.mode_content must be empty, since gamemaster adds nothing",
    ),
    "mode content as a list": (
        chapter("mode_content", to=[]),
        "chapter.mode_content must be an object",
    ),
    "a text as a number": (
        event(1, "text", 7),
        "chapter.turns[0].attempts[0].events[1].text must be text",
    ),
    "a number as text": (
        chapter("turns", 1, "number", to=SECRET),
        "chapter.turns[1].number must be a whole number",
    ),
    "a number with a fraction": (
        chapter("prompt_index", to=10.0),
        "chapter.prompt_index must be a whole number",
    ),
    "a boolean": (chapter("prompt_index", to=True), "prompt_index must be a whole number"),
    "a negative number": (
        chapter("prompt_index", to=-1),
        "chapter.prompt_index must be at least 0",
    ),
    "a huge number": (
        chapter("turns", 0, "number", to=10**4_000),
        "chapter.turns[0].number must be at most 1,000,000",
    ),
    "a slot of none": (event(1, "agent_slot", 608), "agent_slot must be at most 607"),
    "an unknown role": (
        event(1, "role", SECRET),
        "chapter.turns[0].attempts[0].events[1].role must be 'user', 'agent' or 'system'",
    ),
    "a state of work": (
        chapter("state", to="NARRATING"),
        "chapter.state must be 'DRAFT_TAB1', 'ACTIVE' or 'ENDED'",
    ),
    "a NUL": (
        event(0, "text", SECRET + "\0"),
        "chapter.turns[0].attempts[0].events[0].text holds characters that are not text",
    ),
    "a lone surrogate": (
        chapter("tab1", "world_text", to=SECRET + "\ud800"),
        "chapter.tab1.world_text holds characters that are not text",
    ),
    "an escape sequence": (
        chapter("unanswered_attempts", 0, "words", to=SECRET + "\x1b[2J"),
        "chapter.unanswered_attempts[0].words holds characters that are not text",
    ),
    "a long text": (
        chapter("tab1", "chapter_text", to="x" * 5_001),
        "chapter.tab1.chapter_text is longer than 5,000 characters",
    ),
    "combining marks": (
        chapter("title", to="Z" + "\u0301" * 10_000),
        "chapter.title is longer than 120 characters",
    ),
    "a title that cannot be seen": (
        chapter("title", to="\u3164"),
        "chapter.title must not be empty",
    ),
    "words that cannot be seen": (
        attempt("words", to="\u2800"),
        "chapter.turns[0].attempts[0].events must begin with the words of the prompt",
    ),
    "a title of space": (chapter("title", to=""), "chapter.title must not be empty"),
    "a name that cannot be seen": (
        chapter("cast", 0, "name", to="\u200b"),
        "chapter.cast[0].name is no name: character 1 is U+200B",
    ),
    "a name that turns the direction": (
        chapter("cast", 0, "name", to="Ma\u202era"),
        "chapter.cast[0].name is no name: character 3 is U+202E",
    ),
    "a control character": (
        chapter("tab1", "world_text", to="a\r\nb\x1b"),
        "chapter.tab1.world_text holds characters that are not text: character 4 is U+001B",
    ),
    "a long sentence": (
        chapter("cast", 0, "public_text", to="x" * 201),
        "chapter.cast[0].public_text is longer than 200 characters",
    ),
    "an unknown slot": (chapter("cast", 0, "slot", to=8), "chapter.cast[0].slot must be at most 7"),
    "a key of a character": (chapter("cast", 0, SECRET, to="x"), "chapter.cast[0].? is no key"),
    "nobody": (chapter("cast", to=[]), "chapter.cast must have an entry"),
    "very short stretches": (
        chapter("chunk_size_prompts", to=2),
        "chapter.chunk_size_prompts must be at least 3",
    ),
    "very long stretches": (
        chapter("chunk_size_prompts", to=21),
        "chapter.chunk_size_prompts must be at most 20",
    ),
    "an unknown length": (
        chapter("reply_length", to="endless"),
        "chapter.reply_length must be 'short', 'normal' or 'long'",
    ),
    "too many words": (chapter("target_words", to=5_001), "target_words must be at most 5,000"),
    "a payload as text": (
        chapter("memory_blocks", 0, "json_payload", to=SECRET),
        "chapter.memory_blocks[0].json_payload must be an object",
    ),
    "a deep payload": (
        chapter("memory_blocks", 1, "json_payload", "x", to=nested(60)),
        "json_payload cannot be stored: the JSON object is nested too deeply",
    ),
    "a payload with NUL": (
        chapter("memory_blocks", 1, "json_payload", "x\0", to=1),
        "json_payload cannot be stored: a text holds characters that are not text: character 2 is "
        "U+0000",
    ),
    "a payload with a surrogate": (
        chapter("memory_blocks", 1, "json_payload", "x", to=SECRET + "\udfff"),
        "is U+DFFF, half of a character",
    ),
    "a long payload": (
        chapter("memory_blocks", 1, "json_payload", "x", to="y" * 1_000_001),
        "chapter.memory_blocks[1].json_payload is too long",
    ),
    "a time of no day": (
        chapter("created_at", to="2026-02-31T00:00:00.000000Z"),
        "chapter.created_at must be a time such as",
    ),
    "the last time of all": (
        event(-1, "created_at", "9999-12-31T23:59:59.999999Z"),
        "created_at must be a time such as 2026-01-31T23:59:59.000000Z, of the years",
    ),
    "a time without a zone": (
        chapter("created_at", to="2026-01-31T00:00:00.000000"),
        "chapter.created_at must be a time such as",
    ),
    "a time as a number": (chapter("created_at", to=1e9), "chapter.created_at must be a time"),
    "events of the whole chapter": (chapter("events", to=[]), "chapter.events is no key of this"),
    "a trial of no turn": (
        chapter("unanswered_attempts", 0, "kind", to="trial"),
        "chapter.unanswered_attempts[0].turn must be a turn for a reroll or a trial",
    ),
    "an answered attempt": (
        chapter("unanswered_attempts", 0, "status", to="committed"),
        "unanswered_attempts[0].status must be 'failed', 'stopped' or 'set_aside'",
    ),
}


@pytest.mark.parametrize(("change", "message"), FIELDS.values(), ids=FIELDS)
def test_a_field_that_is_wrong_is_named(change: Callable[[File], None], message: str) -> None:
    file = good_file()
    change(file)
    assert message in refusal(as_bytes(file))


def test_a_payload_with_an_endless_number() -> None:
    """The number 1e999 is valid JSON, which Python reads as infinity."""
    content = as_bytes(good_file()).replace(b'"CANON-7"', b"1e999")
    assert "json_payload cannot be stored: a number is not finite" in refusal(content)
