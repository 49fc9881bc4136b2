"""The engine removes a narrator's marks around its prose, but no word of the story."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from agents.flows.telling.narrating import request_build
from agents.flows.telling.tests.narrations import make_ended_chapter, words
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting.cleaning.plain_prose import (
    as_prose,
    end_at_sentence,
    last_sentences,
    repeats,
    why_no_prose,
)
from memory.models import NarrativeDraft


@pytest.mark.parametrize(
    ("text", "prose"),
    [
        ("# Chapter One\n\nThe lamp is dark.", "The lamp is dark."),
        ("**2. A door above the quay**\n\nIt shut.\n\n**12. Later**\n\nRain.", "It shut.\n\nRain."),
        (
            "It shut.\n\n**7. The window is lit.**\n\nRain.",
            "It shut.\n\nThe window is lit.\n\nRain.",
        ),
        ('3) "Who goes?" she asked.\n\n4) Nobody', '"Who goes?" she asked.\n\nNobody'),
        ("The **old** lamp, 3. of May, is **dark**.", "The old lamp, 3. of May, is dark."),
        ("**Ansa** waits.", "Ansa waits."),
        ("Rain.\n\n* * *\n\n*Later*, wind.", "Rain.\n\n* * *\n\n*Later*, wind."),
        ("Rain.\n\n***\n\nWind.\n\n_ _ _", "Rain.\n\n***\n\nWind.\n\n_ _ _"),
        ("**Morning.** *She had not slept.*", "Morning. *She had not slept.*"),
        ('**"No,"** he said, and the rain went on —', '"No," he said, and the rain went on —'),
        ("1) He waited:", "He waited:"),
        ("Rain.\n\n**3. He turned and", "Rain.\n\n3. He turned and"),
        ("**DONE**", ""),
        ("1914 was cold.\n\n1) Rain.", "1914 was cold.\n\nRain."),
        ("No mark, and no end", "No mark, and no end"),
        ("## Only this", ""),
        ("**มานีเดินออกมา**\n\n**怎么了？**\n\n**第一章**", "มานีเดินออกมา\n\n怎么了？"),  # noqa: RUF001
    ],
)
def test_headings_numbers_and_bold_marks_go(text: str, prose: str) -> None:
    assert as_prose(text) == prose


_PARAGRAPHS = st.lists(st.from_regex(r"\A[A-Z][a-z ,'\"]{1,40}[.!?]\Z"), min_size=1, max_size=5)


@given(_PARAGRAPHS, st.data())
def test_prose_is_left_alone_and_found_again_under_marks(
    paragraphs: list[str], data: st.DataObject
) -> None:
    prose = "\n\n".join(paragraphs)
    assert as_prose(prose) == prose
    marks = st.sampled_from(["{}", "## {}", "**{}**", "**3. {}**", "12) {}", "# Part\n\n{}"])
    marked = "\n\n".join(data.draw(marks).format(paragraph) for paragraph in paragraphs)
    assert as_prose(marked) == prose


@pytest.mark.django_db
def test_a_draft_is_stored_without_them(
    provider: ScriptedProvider, run_jobs: Callable[[], int]
) -> None:
    chapter = make_ended_chapter()
    provider.enqueue(f"# The Weighing\n\n**1. The quay**\n\n{words(200)}")
    request_build(chapter.pk)
    run_jobs()
    assert NarrativeDraft.objects.get().chapter_text == words(200)


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("One. Two", "One."),
        ('He said "no." Then', 'He said "no."'),
        ("No end", "No end"),
        ("One? Two! Th", "One? Two!"),
        ("灯灭了。“谁？”她说", "灯灭了。“谁？”"),  # noqa: RUF001
        ("वह आई। वह", "वह आई।"),
        ("کون ہے؟ وہ", "کون ہے؟"),
        ("เขามาแล้ว ใคร", "เขามาแล้ว"),
        ("เขามาแล้ว", "เขามาแล้ว"),
    ],
)
def test_a_broken_sentence_is_left_out(text: str, ends: str) -> None:
    assert end_at_sentence(text) == ends


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("One. Two", "One. Two"),
        ("The end. One two. Three four five six.", "Three four five six."),
        ("One two three four five six seven", "four five six seven"),
        ("Onetwothreefourfivesix seven", "threefourfivesix seven"),
    ],
)
def test_the_end_of_a_long_paragraph_starts_at_a_sentence_or_a_word(text: str, end: str) -> None:
    assert last_sentences(text, 22) == end


def test_repetition_is_recognised() -> None:
    assert repeats(words(30), words(60))
    assert not repeats(words(30, "other"), words(60))


MARKED = "## One\n\n12) Rain fell.\n\n**The lamp was out**\n\n3 men came, *slowly*.\n\n1914."


@pytest.mark.django_db
def test_only_a_small_model_s_text_is_cleaned(
    provider: ScriptedProvider, run_jobs: Callable[[], int], settings: Settings
) -> None:
    told = {}
    for llm in ("embedded", "openai"):
        settings.LLM, settings.MODEL = llm, "gpt-5.2"
        chapter = make_ended_chapter()
        provider.enqueue(MARKED, "He slept.", "**DONE.**")
        request_build(chapter.pk)
        run_jobs()
        told[llm] = NarrativeDraft.objects.get(session=chapter).chapter_text
        provider.queue.clear()
    assert told["openai"] == f"{MARKED}\n\nHe slept."
    assert told["embedded"] == "Rain fell.\n\n3 men came, *slowly*.\n\n1914.\n\nHe slept."


@pytest.mark.parametrize(
    "text",
    ['{"text": "Night."}', ' ```json\n{ "a": 1', '[ {"scene": 1}]', "* * *", "__ --", "{}", ""],
)
def test_what_is_no_prose(text: str) -> None:
    assert why_no_prose(text)


@pytest.mark.parametrize(
    "text",
    ["Night.", "“{x}”, it said.", '["Hush," she said.]', "{The lamp} went out.", "夜。", "1914"],
)
def test_what_may_be_prose(text: str) -> None:
    assert not why_no_prose(text)
