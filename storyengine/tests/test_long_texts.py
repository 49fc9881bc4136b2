"""Tests that long and odd texts of a model are read in a time that grows no faster than their
length.

If the time grew with the square of the length, these texts would take many minutes. Then pytest's
`faulthandler_timeout` would end the test and show the line that was running.
"""

import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import partial

import pytest
from django.template.context import Context

from agents.prompting.cleaning.plain_prose import (
    as_prose,
    end_at_sentence,
    last_sentences,
    last_words,
    repeats,
    without_heading,
    without_middle,
)
from agents.prompting.escaping import without_forgeries
from agents.prompting.forms.object_forms import Form, read_reply
from agents.prompting.forms.schemas import InvalidReply, Payload, TurnDelta, check_payload
from sessions.language.sentences import split_sentences
from sessions.language.speaker_marks import without_chat_marks, without_cues
from sessions.language.text import scrub_reply
from sessions.language.words import count_words
from sessions.models import Session
from sessions.record.transcript import Entry, normalize_blank_lines
from sessions.tests.weekly import few
from storyengine.web.templatetags.entries import turns

LENGTH = few(100_000, 500_000)
# Each of these units is repeated until the text has LENGTH characters.
UNITS = [
    *(" ", "\t", "\n", " \n", "\r", "\u2028", "\u200b", "\u0301", "x ", "Tom: ", "GM 1 ", "1) "),
    *("\u3002*", "\u300d ", "\u0e01 ", "\u706f"),
    *("#", "## ", "*", "** ", "_ ", ".", '."', ":", "-", "(", "\\", "&#1", "<", "</", "<x ", "["),
]
# After some of these beginnings, code that reads the text takes another branch.
STARTS = ["", "## x", "**x**"]
BRACKETS = ["{", "[", '{"a":', '"a": ', '"', "\\", "}", "]", ",", "//", "/*", " ", "\n", "1", "```"]


def _shown(text: str) -> str:
    return turns(Context({"chapter": Session()}), [Entry(1, "user", "1) ", text)], uuid.uuid4())


READERS: dict[str, Callable[[str], object]] = {
    "scrub_reply": scrub_reply,
    "without_cues": partial(without_cues, names=("Tom", "???")),
    "without_chat_marks": without_chat_marks,
    "without_forgeries": without_forgeries,
    "as_prose": as_prose,
    "end_at_sentence": end_at_sentence,
    "without_heading": without_heading,
    "without_middle": without_middle,
    "last_words": partial(last_words, count=100),
    "last_sentences": partial(last_sentences, limit=1_000),
    "count_words": count_words,
    "split_sentences": split_sentences,
    "repeats": lambda text: repeats(text, text),
    "normalize_blank_lines": normalize_blank_lines,
    "turns": _shown,
}


def _long(start: str, unit: str) -> str:
    return f"{start}{unit * (LENGTH // len(unit))}x"


def _validate(text: str, form: Form, *, is_last_try: bool) -> None:
    def check(payload: Payload) -> None:
        check_payload(payload, TurnDelta)

    with suppress(InvalidReply):
        read_reply(text, TurnDelta, check, form=form, is_last_try=is_last_try)


@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("reader", READERS)
def test_of_a_reply_of_words(reader: str, start: str) -> None:
    for unit in UNITS:
        READERS[reader](_long(start, unit))


@pytest.mark.parametrize("is_last_try", [False, True], ids=["first try", "last try"])
@pytest.mark.parametrize("start", ["", '{"memory_type": ', '{"memory_type": "turn_delta", "x": ["'])
def test_of_a_reply_in_brackets(start: str, is_last_try: bool) -> None:
    for unit in BRACKETS:
        _validate(_long(start, unit), "json", is_last_try=is_last_try)
