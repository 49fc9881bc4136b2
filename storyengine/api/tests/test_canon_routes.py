from typing import Any

import pytest

from agents.tests.replies import turn_delta, world_lock
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_prompts, make_active_chapter
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = pytest.mark.django_db

QUESTION = "Is the lamp lit?"


@pytest.fixture
def chapter() -> Session:
    chapter = make_active_chapter(last_summarized_prompt_index=7)
    add_prompts(chapter, 8)
    add_lock(chapter, world_lock())
    add_delta(chapter, 1, 7, turn_delta(1, 7, contradictions_or_questions=[QUESTION]))
    return chapter


def sections(chapter: Session) -> dict[str, list[Any]]:
    document = call("GET", address(chapter, "now")).json()
    return {section["key"]: section["items"] for section in document["sections"]}


def texts(items: list[Any]) -> list[str]:
    return [item["text"] for item in items]


class TestNow:
    def test_it_says_what_holds_and_where_it_was_said(self, chapter: Session) -> None:
        document = call("GET", address(chapter, "now")).json()
        assert document["session_id"] == str(chapter.pk)
        assert (document["prompt_index"], document["last_summarized_prompt_index"]) == (8, 7)
        [thread] = sections(chapter)["open"]
        assert thread == {
            "text": "THREAD-7",
            "aside": "",
            "first": {"first": 1, "last": 7},
            "latest": {"first": 1, "last": 7},
            "at": [],
            "replaces": "THREAD-7",
        }


class TestCorrection:
    def test_it_is_a_block_that_wins(self, chapter: Session) -> None:
        response = call(
            "POST",
            address(chapter, "canon-correction"),
            {"canon": "The lamp burns.", "replaces": "CANON-7", "reason": "It was lit."},
        )
        block = response.json()
        assert response.status_code == 201
        assert block["type"] == "canon_correction"
        assert (block["from_prompt_index"], block["to_prompt_index"]) == (8, 8)
        assert block["json_payload"]["canon"] == "The lamp burns."
        assert call("GET", address(chapter)).json()["memory_blocks"][-1] == block
        assert texts(sections(chapter)["canon"]) == ["CANON-0", "The lamp burns."]
        assert texts(sections(chapter)["withdrawn"]) == ["CANON-7"]


class TestAnswer:
    def test_it_settles_the_question(self, chapter: Session) -> None:
        [asked] = sections(chapter)["questions"]
        response = call(
            "POST",
            address(chapter, "answer"),
            {"question": asked["text"], "answer": "take_new", "old": "CANON-7", "new": "Lit."},
        )
        assert response.status_code == 201
        assert response.json()["json_payload"]["answers"] == QUESTION
        now = sections(chapter)
        assert "questions" not in now
        assert texts(now["canon"]) == ["CANON-0", "Lit."]

    @pytest.mark.parametrize(
        ("body", "status", "kind"),
        [
            ({"question": "Why?", "answer": "keep"}, 409, "wrong-state"),
            ({"question": QUESTION, "answer": "perhaps"}, 422, "invalid-input"),
            ({"question": QUESTION}, 422, "invalid-input"),
            ({"question": QUESTION, "answer": "keep", "old": "x" * 1001}, 422, "too-long"),
            ({"question": QUESTION, "answer": "take_new"}, 422, "invalid-input"),
            ({"question": QUESTION, "answer": "take_new", "old": "CANON-7"}, 422, "invalid-input"),
            (
                {"question": QUESTION, "answer": "take_new", "old": "CANON-8", "new": "Lit."},
                422,
                "invalid-input",
            ),
        ],
    )
    def test_what_cannot_be_accepted_is_a_problem(
        self, chapter: Session, body: Any, status: int, kind: str
    ) -> None:
        assert_problem(call("POST", address(chapter, "answer"), body), status, kind)
        assert chapter.memory_blocks.count() == 2
        assert texts(sections(chapter)["questions"]) == [QUESTION]
