"""Tests of how pages show texts that are read from the right, and of the language of a story."""

import re

import pytest
from django.test import Client

from memory.prose.tests.told_chapters import add_draft
from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id, read

TITLE, NAME = "ليلة الرصيف", "مريم"
WORDS, REPLY = "عاصفة على الرصيف! ماذا تفعلين؟", "من هناك؟ سألت (بهدوء)."
PROSE = "# ليلة\n\nوقفت مريم على الرصيف وكان الحبل مقطوعًا.\n\nShe waited."
FIRST_STRONG, POP = "\u2068", "\u2069"


@pytest.fixture
def arabic(db: None) -> Session:
    chapter = make_active_chapter(title=TITLE, agent_names={"1": NAME, "2": "Tom"}, prompt_index=1)
    add_turn(chapter, 1, words=WORDS, reply=REPLY, actor=1)
    add_draft(chapter, PROSE)
    return chapter


def get_page(client: Client, chapter: Session, name: str) -> str:
    return client.get(address(chapter, name)).content.decode()


@pytest.mark.parametrize("page", ["play", "draft", "transcript", "world", "read", "search"])
def test_every_box_for_texts_has_the_direction_of_its_text(
    client: Client, arabic: Session, page: str
) -> None:
    kinds = (None, "text", "search")
    boxes = [
        one
        for one in read(get_page(client, arabic, page))
        if (one.tag == "textarea" and "hidden" not in one.attributes)
        or (one.tag == "input" and one.attributes.get("type") in kinds)
    ]
    assert [one.attributes.get("dir") for one in boxes] == ["auto"] * len(boxes)


@pytest.mark.parametrize("page", ["play", "transcript"])
def test_the_words_of_an_entry_decide_its_direction_and_not_its_number_or_name(
    client: Client, arabic: Session, page: str
) -> None:
    entries = all_of(get_page(client, arabic, page), "p", "entry")
    assert len(entries) == 2
    for entry in entries:
        assert entry.attributes["dir"] == "auto"
        assert entry.attributes["lang"] == "ar"
    html = get_page(client, arabic, page)
    assert f"<b>1) </b>{WORDS}" in html
    assert f"<b><bdi>{NAME}</bdi>: </b>{REPLY}" in html


def test_prose_has_its_direction_and_its_language(client: Client, arabic: Session) -> None:
    told = all_of(get_page(client, arabic, "draft"), "p", "told-text")
    assert told
    assert all(one.attributes["dir"] == "auto" for one in told)
    assert all(one.attributes["lang"] == "ar" for one in told)
    html = get_page(client, arabic, "read")
    [text] = all_of(html, "div", "book-text")
    assert text.attributes["lang"] == "ar"
    paragraphs = [
        one for one in read(html) if one.tag in ("h1", "p") and one.words and one.words in PROSE
    ]
    assert paragraphs
    assert all(one.attributes.get("dir") == "auto" for one in paragraphs)


def test_a_title_and_a_name_turn_round_no_sentence_and_no_attribute(
    client: Client, arabic: Session
) -> None:
    html = get_page(client, arabic, "play")
    kept = f"{FIRST_STRONG}{NAME}{POP}"
    assert by_id(html, "panel-1").attributes["data-name"] == kept
    assert f"<title>{FIRST_STRONG}{TITLE}{POP} ·" in html
    shelf = client.get("/").content.decode()
    for label in re.findall(r'aria-label="([^"]*)"', shelf):
        assert TITLE not in label.replace(f"{FIRST_STRONG}{TITLE}{POP}", "")


class TestLanguage:
    def test_it_can_be_set_on_tab_1_in_play_too(self, client: Client, arabic: Session) -> None:
        html = get_page(client, arabic, "world")
        choice = by_id(html, "language")
        assert "disabled" not in choice.attributes
        # The page saves a choice whose value is not the one that was selected when it came.
        chosen = [one for one in all_of(html, "option") if choice in one.parents]
        chosen = [one for one in chosen if "selected" in one.attributes]
        assert [one.attributes["value"] for one in chosen] == [""]
        assert "As found in play: Arabic" in html
        client.post(address(arabic, "language"), {"language": "fa"})
        arabic.refresh_from_db()
        assert arabic.told_language == "fa"
        [entry, _] = all_of(get_page(client, arabic, "transcript"), "p", "entry")
        assert entry.attributes["lang"] == "fa"
