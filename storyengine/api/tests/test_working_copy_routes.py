import pytest

from memory.models import NarrativeDraft
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from sessions.models import Session
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = pytest.mark.django_db
WHOLE = "\n\n".join(TOLD)


@pytest.fixture
def chapter() -> Session:
    return make_told_chapter()


def copy_of(chapter: Session, draft: NarrativeDraft, action: str = "") -> str:
    return address(chapter, f"drafts/{draft.pk}/working-copy{action}")


class TestWorkingCopy:
    def test_it_is_saved_read_and_thrown_away(self, chapter: Session) -> None:
        where = copy_of(chapter, add_draft(chapter, WHOLE))
        assert_problem(call("GET", where), 404, "unknown-working-copy")
        saved = call("PUT", where, {"text": "Again.\r\n"})
        assert saved.status_code == 200
        assert saved.json()["text"] == "Again.\n"
        assert call("GET", where).json() == saved.json()
        assert call("DELETE", where).status_code == 204
        assert call("DELETE", where).status_code == 204
        assert_problem(call("GET", where), 404, "unknown-working-copy")

    def test_it_is_kept_as_another_draft(self, chapter: Session) -> None:
        draft = add_draft(chapter, WHOLE, ends=(4,))
        assert_problem(call("POST", copy_of(chapter, draft, "/keep")), 409, "wrong-state")
        call("PUT", copy_of(chapter, draft), {"text": f"{WHOLE}\n\nThe end."})
        kept = call("POST", copy_of(chapter, draft, "/keep"))
        assert kept.status_code == 201
        document = kept.json()
        assert (document["origin_id"], document["is_edited"]) == (str(draft.pk), True)
        drafts = call("GET", address(chapter)).json()["narrative_drafts"]
        assert [one["draft_id"] for one in drafts] == [str(draft.pk), document["draft_id"]]
        receipts = call("GET", address(chapter, f"drafts/{document['draft_id']}/receipts")).json()
        [scene] = receipts["scenes"]
        assert [one["prompts"] for one in scene["paragraphs"]] == [[1], [2], [], [3], []]


class TestChosenDraft:
    def test_the_downloads_go_by_it(self, chapter: Session) -> None:
        where = address(chapter, "chosen-draft")
        assert_problem(call("GET", where), 409, "wrong-state")
        first, second = add_draft(chapter, "First."), add_draft(chapter, "Second.")
        found = call("GET", where).json()
        assert (found["draft_id"], found["is_explicit"]) == (str(second.pk), False)
        assert call("PUT", where, {"draft_id": str(first.pk)}).status_code == 200
        assert call("GET", where).json() == found | {
            "draft_id": str(first.pk),
            "is_explicit": True,
        }
        for text in (address(chapter, "text"), f"/api/story/{chapter.story_id}/text"):
            assert call("GET", text).content.decode().endswith("First.\n")
        assert call("DELETE", where).status_code == 204
        assert call("GET", address(chapter, "text")).content.decode().endswith("Second.\n")


class TestDifferences:
    def test_they_are_told_word_by_word(self, chapter: Session) -> None:
        old, new = add_draft(chapter, "The lamp burns."), add_draft(chapter, "The lamp is out.")
        document = call("GET", address(chapter, f"drafts/{old.pk}/differences/{new.pk}")).json()
        [row] = document["rows"]
        assert (row["old"], row["new"]) == (1, 1)
        assert row["parts"] == [
            {"change": "same", "text": "The lamp "},
            {"change": "removed", "text": "burns"},
            {"change": "added", "text": "is out"},
            {"change": "same", "text": "."},
        ]
