import uuid

import pytest

from memory.tests.told_chapters import TOLD, add_draft, make_told_chapter
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = pytest.mark.django_db


class TestReceipts:
    def test_they_name_the_prompts_of_each_paragraph_and_what_is_not_told(self) -> None:
        chapter = make_told_chapter()
        draft = add_draft(
            chapter, "# The Coin\n\n" + "\n\n".join(TOLD[:2]), "\n\n".join(TOLD[2:]), ends=(2, 4)
        )
        document = call("GET", address(chapter, f"drafts/{draft.pk}/receipts")).json()
        assert (document["last_prompt"], document["has_scenes"]) == (4, True)
        first, second = document["scenes"]
        assert [(one["number"], one["kind"], one["prompts"]) for one in first["paragraphs"]] == [
            (1, "heading", []),
            (2, "prose", [1]),
            (3, "prose", [2]),
        ]
        assert first["paragraphs"][0]["confidence"] is None
        assert second["paragraphs"][0]["confidence"] == "invented"
        assert (first["prompts_not_told"], second["prompts_not_told"]) == ([], [4])
        for one in first["paragraphs"] + second["paragraphs"]:
            assert draft.chapter_text[one["start"] :].startswith(one["text"])

    def test_an_unknown_draft_is_a_404(self) -> None:
        chapter = make_told_chapter()
        answer = call("GET", address(chapter, f"drafts/{uuid.uuid4()}/receipts"))
        assert_problem(answer, 404, "unknown-chapter")
