"""Tests of the Now view, of rulings on canon, and of answers to the questions that memory asks."""

from typing import Any

import pytest
from django.test import Client

from agents.flows.replies.dry_run import look_ahead
from agents.tests.replies import turn_delta
from memory.models import MemoryBlock
from memory.tests.factories import add_delta
from sessions.models import Session, State
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page, read

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"
CONFLICT = f"old: CANON-7 | new: The lamp burns {HOSTILE}"
TAKEN = f"The lamp burns {HOSTILE}"
QUESTIONS = ["Is the lamp lit?", f"Who is {HOSTILE}?"]


def remember(chapter: Session, first: int, last: int, **changes: Any) -> None:
    MemoryBlock.objects.create(
        session=chapter,
        type=MemoryBlock.Type.TURN_DELTA,
        from_prompt_index=first,
        to_prompt_index=last,
        json_payload=turn_delta(first, last, **changes),
    )


@pytest.fixture
def asking(chapter: Session) -> Session:
    """Return a chapter whose memory asks two questions."""
    remember(chapter, 8, 8, contradictions_or_questions=QUESTIONS)
    return chapter


@pytest.fixture
def torn(chapter: Session) -> Session:
    """Return a chapter whose memory asks which of two facts is true."""
    remember(chapter, 8, 8, contradictions_or_questions=[CONFLICT])
    return chapter


def inside(html: str, outer: Element) -> list[Element]:
    return [one for one in read(html) if any(_is_same(parent, outer) for parent in one.parents)]


def _is_same(one: Element, other: Element) -> bool:
    return (one.tag, one.attributes, one.words) == (other.tag, other.attributes, other.words)


def now_items(html: str) -> dict[str, Element]:
    """Return the entries of the Now view. The keys are the words of the entries."""
    elements = read(html)
    entries = [one for one in elements if one.tag == "li"]
    texts = [one for one in elements if one.has_class("now-text")]
    return {text.words: entry for text, entry in zip(texts, entries, strict=True)}


def link_of(html: str, label: str) -> str:
    [link] = [one for one in all_of(html, "a") if one.attributes.get("aria-label") == label]
    return link.attributes["href"]


def banner(html: str) -> Element | None:
    found = all_of(html, "div", "question-banner")
    return found[0] if found else None


def banner_form(html: str) -> tuple[str, dict[str, str]]:
    """Return the address of the form in the question's banner, and the form's hidden fields."""
    shown = banner(html)
    assert shown
    [form] = [one for one in inside(html, shown) if one.tag == "form"]
    inputs = [one.attributes for one in inside(html, form) if one.tag == "input"]
    hidden = {one["name"]: one["value"] for one in inputs if one["name"] != "csrfmiddlewaretoken"}
    return form.attributes["action"], hidden


def links_to_play(html: str) -> list[str]:
    links = (one.attributes.get("href", "") for one in all_of(html, "a"))
    return [one for one in links if "#prompt-" in one]


def choices(html: str) -> dict[str, bool]:
    """Return the facts that the form of a question offers. The value of each fact says whether it
    is preselected."""
    radios = [one.attributes for one in all_of(html, "input", type="radio", name="old")]
    return {one["value"]: "checked" in one for one in radios}


def prompt(chapter: Session) -> str:
    run = look_ahead(Session.objects.get(pk=chapter.pk), agent_slot=1, user_text="Knock.")
    return "\n".join(layer.text for layer in run.layers)


def ruling(chapter: Session) -> Any:
    [block] = chapter.memory_blocks.filter(type=MemoryBlock.Type.CANON_CORRECTION)
    return block.json_payload


class TestNow:
    def test_it_stands_beside_the_blocks_and_is_chosen_at_the_cells_bottom(
        self, client: Client, chapter: Session
    ) -> None:
        html = get_page(client, chapter, "draft")
        blocks, now = by_id(html, "memory-shows-blocks"), by_id(html, "memory-shows-now")
        assert ("checked" in blocks.attributes, "checked" in now.attributes) == (True, False)
        assert (
            "checked"
            in by_id(get_page(client, chapter, "draft", show="now"), "memory-shows-now").attributes
        )
        titles = [one.words for one in inside(html, by_id(html, "memory-now")) if one.tag == "h3"]
        assert titles == ["Canon", "Open threads", "Where everyone is", "Timeline"]

    def test_a_fact_leads_to_the_very_prompts_that_it_comes_from(
        self, client: Client, chapter: Session
    ) -> None:
        remember(
            chapter,
            8,
            14,
            canon_locks=["CANON-8"],
            canon_locks_at=[12],
            major_events=[{"event": "A bell rings", "at": [8, 9, 14]}],
        )
        html = get_page(client, chapter, "draft")
        transcript = address(chapter, "transcript")
        for text, numbers in (
            ("CANON-8", [("12", 12)]),
            ("A bell rings", [("8-9", 8), ("14", 14)]),
        ):
            links = [one for one in inside(html, now_items(html)[text]) if one.tag == "a"][:-1]
            told = [one.attributes["href"] for one in links]
            assert told == [f"{transcript}?prompt={at}#prompt-{at}" for _, at in numbers]
            assert [one.words.split()[-1] for one in links] == [words for words, _ in numbers]
        # The first link of an item says in words that its number is a prompt's.
        [canon] = [
            one
            for one in inside(html, now_items(html)["CANON-8"])
            if one.tag == "span" and one.words == "Prompt"
        ]
        assert not canon.has_class("unseen")

    def test_it_says_who_knows_what_not_everybody_knows(
        self, client: Client, chapter: Session
    ) -> None:
        told = {"canon_locks": ["CANON-8"], "contradictions_or_questions": ["Is it so?"]}
        add_delta(chapter, 8, 8, turn_delta(8, 8, **told), audience=[1, 3])
        add_delta(chapter, 8, 8, turn_delta(8, 8, canon_locks=["CANON-9"]), audience=[])
        items = now_items(get_page(client, chapter, "draft"))
        assert "CANON-8 · known to Agent Red, Agent Yellow" in items
        assert "CANON-9 · known to nobody of the cast" in items
        # These three entries name no readers. Everybody knows the two facts, and the question is
        # for the Game Master.
        assert {"CANON-0", "CANON-7", "Is it so?"} <= items.keys()


class TestCorrect:
    def test_an_item_leads_to_a_form_with_its_text(self, client: Client, chapter: Session) -> None:
        asked = link_of(get_page(client, chapter, "draft"), "Correct: CANON-7")
        assert "CANON" not in asked
        html = client.get(asked).content.decode()
        assert by_id(html, "canon-replaces").words == "CANON-7"
        assert by_id(html, "canon-canon").words == ""

    def test_a_correction_shows_in_both_panels(self, client: Client, chapter: Session) -> None:
        response = client.post(
            address(chapter, "correct-canon"),
            {"canon": "The lamp burns.", "replaces": "CANON-7", "reason": "It was lit."},
        )
        assert response["Location"] == address(chapter, "draft") + "?show=now#memory"
        html = get_page(client, chapter, "draft")
        assert {"The lamp burns.", "CANON-7 now: The lamp burns."} <= now_items(html).keys()
        assert "Correction of canon" in all_of(html, "article", "memory-block")[-1].words

    @pytest.mark.parametrize(
        ("state", "typed", "status", "why"),
        [
            (State.ACTIVE, {"canon": HOSTILE + "x" * 1000}, 422, "at most 1,000"),
            (State.ACTIVE, {"reason": HOSTILE}, 422, "what is true now"),
            (State.NARRATING, {"canon": HOSTILE}, 409, "is being written"),
        ],
    )
    def test_a_refusal_keeps_what_was_typed(
        self,
        client: Client,
        chapter: Session,
        state: State,
        typed: dict[str, str],
        status: int,
        why: str,
    ) -> None:
        Session.objects.update(state=state)
        response = client.post(address(chapter, "correct-canon"), typed)
        html = response.content.decode()
        assert response.status_code == status
        [message] = all_of(html, "div", "message-error")
        assert why in message.words
        for name, text in typed.items():
            assert by_id(html, f"canon-{name}").text.strip() == text
        assert HOSTILE not in html
        assert chapter.memory_blocks.count() == 2

    def test_while_canon_cannot_change_nothing_offers_it(
        self, client: Client, asking: Session
    ) -> None:
        Session.objects.update(state=State.NARRATING)
        html = get_page(client, asking, "draft")
        offers = [one for one in all_of(html, "a") if "/canon" in one.attributes["href"]]
        assert offers == []
        assert "Keep the old canon" not in html
        form = client.get(address(asking, "canon")).content.decode()
        assert "is being written from memory" in form

    def test_the_game_master_may_name_who_is_told(self, client: Client, chapter: Session) -> None:
        sent = {"canon": "The bell is cracked.", "readers": ["2", "1"]}
        assert client.post(address(chapter, "correct-canon"), sent).status_code == 302
        assert chapter.memory_blocks.get(type="canon_correction").audience == [1, 2]
        html = get_page(client, chapter, "canon")
        boxes = all_of(html, "input", type="checkbox", name="readers")
        assert [one.attributes["value"] for one in boxes] == ["1", "2", "3"]
        assert not any("checked" in one.attributes for one in boxes)


class TestQuestions:
    def test_a_banner_asks_one_and_says_how_many_there_are(
        self, client: Client, asking: Session
    ) -> None:
        html = get_page(client, asking, "draft")
        shown = banner(html)
        assert shown
        assert QUESTIONS[1] in shown.words
        assert "1 more in the Now view" in shown.words
        assert HOSTILE not in html
        answers = [one.words for one in inside(html, shown) if one.has_class("button")]
        assert answers == ["Keep the old canon", "Take the new…", "Ignore"]

    @pytest.mark.parametrize("answer", ["keep", "ignore"])
    def test_one_click_settles_it(self, client: Client, asking: Session, answer: str) -> None:
        action, hidden = banner_form(get_page(client, asking, "draft"))
        assert hidden == {}
        for _ in range(2):
            response = client.post(action, {"answer": answer})
            assert response.status_code == 302
        assert ruling(asking) == {
            "memory_type": "canon_correction",
            "replaces": "",
            "canon": "",
            "reason": "",
            "answers": QUESTIONS[1],
            "answer": answer,
        }
        shown = banner(get_page(client, asking, "draft"))
        assert shown
        assert QUESTIONS[0] in shown.words

    def test_a_contradiction_leads_to_a_form_that_is_filled_in(
        self, client: Client, torn: Session
    ) -> None:
        html = client.get(
            link_of(get_page(client, torn, "draft"), f"Answer: {CONFLICT}")
        ).content.decode()
        assert next(iter(choices(html).items())) == ("CANON-7", True)
        assert list(choices(html).values()).count(True) == 1
        assert by_id(html, "canon-new").text.strip() == TAKEN
        assert HOSTILE not in html


class TestOneClick:
    """Tests of the banner for a question that asks which of two facts is true."""

    def test_it_shows_both_and_says_what_each_answer_does(
        self, client: Client, torn: Session
    ) -> None:
        html = get_page(client, torn, "draft")
        shown = banner(html)
        assert shown
        facts = [one.words for one in inside(html, shown) if one.tag == "dd"]
        assert facts == ["CANON-7 Prompts 1-7", TAKEN]
        buttons = [one for one in inside(html, shown) if one.tag == "button"]
        assert [one.words for one in buttons] == ["Keep the old canon", "Take the new", "Ignore"]
        for button in buttons:
            described = by_id(html, button.attributes["aria-describedby"])
            assert "the other is marked as not true" in described.words
        assert HOSTILE not in html


class TestAnswerPage:
    def test_the_question_and_each_fact_lead_to_their_prompts(
        self, client: Client, chapter: Session
    ) -> None:
        remember(
            chapter,
            8,
            14,
            canon_locks=["CANON-8"],
            canon_locks_at=[11],
            contradictions_or_questions=["old: CANON-8 | new: the lamp burns"],
            contradictions_or_questions_at=[14],
        )
        html = get_page(client, chapter, "draft")
        shown = banner(html)
        assert shown
        words = [one.words for one in inside(html, shown) if one.tag == "a"]
        assert words[:2] == ["Prompt 14", "Prompt 11"]
        asked = link_of(html, "Answer: old: CANON-8 | new: the lamp burns")
        page = client.get(asked).content.decode()
        numbers = [one.rpartition("-")[2] for one in links_to_play(page)]
        assert numbers == ["14", "11", "1"]
        assert list(choices(page)) == ["CANON-8", "CANON-0", "CANON-7", ""]

    @pytest.mark.parametrize(
        ("typed", "why"),
        [
            ({"answer": "keep", "old": "CANON-7", "new": "x" * 1001}, "at most 1,000"),
            ({"answer": "take_new", "old": "CANON-7", "new": "canon-7."}, "say the same"),
            ({"answer": "perhaps", "old": "", "new": "typed"}, "one of the three"),
            ({"old": "CANON-7", "new": "typed"}, "one of the three"),
        ],
    )
    def test_a_refusal_keeps_what_was_typed(
        self, client: Client, asking: Session, typed: dict[str, str], why: str
    ) -> None:
        form = link_of(get_page(client, asking, "draft"), f"Answer: {QUESTIONS[0]}")
        response = client.post(form + "/answer", typed)
        html = response.content.decode()
        assert response.status_code == 422
        [message] = all_of(html, "div", "message-error")
        assert why in message.words
        assert choices(html)[typed["old"]]
        assert by_id(html, "canon-new").text.strip() == typed["new"]
        assert asking.memory_blocks.count() == 3
