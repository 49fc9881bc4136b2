from typing import Any

import pytest
from pytest_django import DjangoAssertNumQueries

from agents.models import Job
from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Attempt, Session
from sessions.play.attempts import open_prompt
from sessions.play.breaking import fail_attempt
from sessions.tests.factories import add_prompts, make_active_chapter, make_chapter
from storyengine.api.tests.calling import address, assert_problem, call

pytestmark = pytest.mark.django_db

TAB1_FIELDS = {
    "world_text",
    "chapter_text",
    "selected_agent_slots",
    "agent_names",
    "agent_pronouns",
    "agent_public_text",
    "agent_identity_text_by_slot",
    "agent_persons_before",
    "chunk_size_prompts",
    "setup",
}
SESSION_FIELDS = {
    *("origin_id", "origin_title", "forked_at_prompt"),
    "session_id",
    "title",
    "mode",
    "starter",
    *("story_id", "place", "is_chosen"),
    "state",
    "prompt_index",
    "last_summarized_prompt_index",
    "selected_agent_slots",
    "agent_names",
    "next_agent_slot",
    "reply_length",
    "language",
    "tab1_locked",
    "is_ending",
    "before",
    "calls_to_accept",
    "narrative_agent_definition_text",
    "target_words",
    "config",
    "tab1",
    "events",
    "memory_blocks",
    "narrative_drafts",
    "pending_turn",
    "jobs",
    "created_at",
    "last_played_at",
}


def full_chapter() -> Session:
    """Return a chapter that has an entry in every part of its document."""
    chapter = make_active_chapter(agent_names={"2": "Mara"})
    add_prompts(chapter, 7)
    block = MemoryBlock.objects.create(
        session=chapter,
        type="world_chapter_lock",
        from_prompt_index=0,
        to_prompt_index=0,
        json_payload={"memory_type": "world_chapter_lock", "canon_locks": ["ночь"]},
    )
    NarrativeDraft.objects.create(
        session=chapter,
        narrative_agent_definition_text="past tense",
        target_words=900,
        source_snapshot={"max_prompt_index_used": 7, "memory_block_ids_used": [str(block.pk)]},
        chapter_text="It was night.",
    )
    Job.objects.create(
        session=chapter,
        kind="summarize",
        key="1-7",
        error="It failed.",
        status="failed",
        attempt=chapter.turns.get(number=7).chosen,
        from_prompt_index=1,
        to_prompt_index=7,
    )
    attempt = open_prompt(chapter.pk, actor=2, words="Go.", submission_key="k1").attempt
    fail_attempt(attempt, error="No answer.", partial_text="I g")
    chapter.refresh_from_db()
    return chapter


class TestCreate:
    def test_it_answers_with_the_new_chapter(self) -> None:
        response = call("POST", "/api/session")
        document = response.json()
        assert response.status_code == 201
        assert response.headers["Location"] == f"/api/session/{document['session_id']}"
        assert set(document) == SESSION_FIELDS
        assert document["state"] == "DRAFT_TAB1"
        assert document["prompt_index"] == 0
        assert document["pending_turn"] is None
        assert document["jobs"] == []
        assert call("GET", response.headers["Location"]).json() == document


class TestGet:
    def test_the_chapter_and_its_events_have_the_names_of_the_specification(self) -> None:
        chapter = full_chapter()
        document = call("GET", address(chapter)).json()
        assert document["session_id"] == str(chapter.pk)
        assert document["agent_names"] == {"1": "Agent Red", "2": "Mara", "3": "Agent Yellow"}
        assert set(document["tab1"]) == {
            "world_text",
            "chapter_text",
            "agent_pronouns",
            "agent_public_text",
            "agent_identity_text_by_slot",
        }
        assert len(document["events"]) == 14
        assert [event["role"] for event in document["events"][:2]] == ["user", "agent"]
        assert set(document["events"][0]) == {
            "event_id",
            "session_id",
            "attempt_id",
            "prompt_index",
            "role",
            "kind",
            "agent_slot",
            "text",
            "shown",
            "witnesses",
            "created_at",
        }

    def test_memory_and_drafts_have_the_names_of_the_specification(self) -> None:
        document = call("GET", address(full_chapter())).json()
        assert set(document["memory_blocks"][0]) == {
            "block_id",
            "session_id",
            "type",
            "from_prompt_index",
            "to_prompt_index",
            "audience",
            "json_payload",
            "came_with_starter",
            "created_at",
        }
        draft = document["narrative_drafts"][0]
        assert (draft["job_id"], draft["attempt_id"], draft["is_current"]) == (None, None, True)
        assert {
            "draft_id",
            "session_id",
            "narrative_agent_definition_text",
            "source_snapshot",
            "chapter_text",
            "created_at",
        } <= set(draft)
        assert draft["source_snapshot"] == {
            "max_prompt_index_used": 7,
            "memory_block_ids_used": [document["memory_blocks"][0]["block_id"]],
        }

    def test_what_is_under_way_has_the_names_of_the_specification(self) -> None:
        chapter = full_chapter()
        document = call("GET", address(chapter)).json()
        pending = chapter.attempts.get(status=Attempt.Status.FAILED)
        assert document["pending_turn"] == {
            "turn_id": str(pending.pk),
            "attempt_id": str(pending.pk),
            "submission_key": "k1",
            "kind": "prompt",
            "status": "failed",
            "agent_slot": 2,
            "user_text": "Go.",
            "witnesses": None,
            "given": None,
            "partial_text": "I g",
            "error": "No answer.",
            "submitted_at": document["pending_turn"]["submitted_at"],
        }
        job = document["jobs"][0]
        assert {
            "kind": "summarize",
            "status": "failed",
            "error": "It failed.",
            "progress": {},
        }.items() <= job.items()

    def test_memory_is_answered_exactly_as_it_is_stored(self) -> None:
        document = call("GET", address(full_chapter())).json()
        assert document["memory_blocks"][0]["json_payload"] == {
            "memory_type": "world_chapter_lock",
            "canon_locks": ["ночь"],
        }

    def test_queries_do_not_grow_with_the_chapter(
        self, django_assert_max_num_queries: DjangoAssertNumQueries
    ) -> None:
        chapter = full_chapter()
        add_prompts(chapter, 40)
        with django_assert_max_num_queries(12):
            assert len(call("GET", address(chapter)).json()["events"]) == 94

    def test_a_chapter_that_moves_while_it_is_read_is_read_again(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chapter = make_active_chapter()
        reading: list[int] = []

        def commit_meanwhile(chapter: Session) -> dict[str, Any]:
            if not reading:
                add_prompts(Session.objects.get(pk=chapter.pk), 1)
            reading.append(1)
            return {}

        monkeypatch.setattr("storyengine.api.document_reading.latest_jobs", commit_meanwhile)
        document = call("GET", address(chapter)).json()
        assert (document["prompt_index"], len(document["events"])) == (1, 2)


class TestList:
    def test_the_chapter_played_last_comes_first(self) -> None:
        first, second = make_chapter(title="A"), make_chapter(title="B")
        listing = call("GET", "/api/session").json()
        assert listing["count"] == 2
        assert [item["session_id"] for item in listing["items"]] == [str(second.pk), str(first.pk)]
        page = call("GET", "/api/session?limit=1&offset=1").json()
        assert [item["title"] for item in page["items"]] == ["A"]

    @pytest.mark.parametrize("query", ["limit=0", "limit=x", f"offset={10**30}", "offset=-1"])
    def test_a_page_that_cannot_be_is_refused(self, query: str) -> None:
        assert_problem(call("GET", f"/api/session?{query}"), 422, "invalid-input")


class TestTab1:
    def test_it_saves_and_answers_with_all_fields(self) -> None:
        chapter = make_chapter()
        sent = {
            "world_text": "A world.\r\nWide.",
            "chapter_text": "A quay.",
            "selected_agent_slots": [1, 2],
            "agent_names": {"1": "Mara", "2": ""},
            "agent_pronouns": {"1": "she/her"},
            "agent_public_text": {"1": "She flies the mail.", "7": "Nobody."},
            "agent_identity_text_by_slot": {"1": "A pilot."},
            "chunk_size_prompts": 12,
        }
        saved = call("PUT", address(chapter, "tab1"), sent)
        assert saved.status_code == 200
        assert set(saved.json()) == TAB1_FIELDS
        assert saved.json() == {
            "world_text": "A world.\nWide.",
            "chapter_text": "A quay.",
            "selected_agent_slots": [1, 2],
            "agent_names": {"1": "Mara", "2": "Agent Orange"},
            "agent_pronouns": {"1": "she/her", "2": ""},
            "agent_public_text": {"1": "She flies the mail.", "2": "", "7": "Nobody."},
            "agent_identity_text_by_slot": {"1": "A pilot.", "2": "A priest.", "3": "A child."},
            "agent_persons_before": {},
            "chunk_size_prompts": 12,
            "setup": {},
        }
        assert call("GET", address(chapter, "tab1")).json() == saved.json()
        again = call("PUT", address(chapter, "tab1"), saved.json())
        assert again.json() == saved.json()

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"world_text": "x" * 5_001}, "too-long"),
            ({"chapter_text": "🌊" * 5_001}, "too-long"),
            ({"agent_identity_text_by_slot": {"1": "x" * 5_001}}, "too-long"),
            ({"agent_names": {"1": "x" * 61}}, "too-long"),
            ({"agent_pronouns": {"1": "x" * 41}}, "too-long"),
            ({"agent_public_text": {"1": "🌊" * 201}}, "too-long"),
            ({"agent_public_text": {"8": "x"}}, "invalid-input"),
            ({"agent_public_text": {"1": "3) Obey."}}, "invalid-input"),
            ({"agent_pronouns": {"1": "\ud800"}}, "invalid-input"),
            ({"agent_pronouns": ["she/her"]}, "invalid-input"),
            ({"chunk_size_prompts": 2}, "invalid-input"),
            ({"chunk_size_prompts": 21}, "invalid-input"),
            ({"chunk_size_prompts": "7"}, "invalid-input"),
            ({"chunk_size_prompts": True}, "invalid-input"),
            ({"selected_agent_slots": []}, "invalid-input"),
            ({"selected_agent_slots": [1, 3]}, "invalid-input"),
            ({"selected_agent_slots": [2, 1]}, "invalid-input"),
            ({"selected_agent_slots": [1, 1]}, "invalid-input"),
            ({"selected_agent_slots": list(range(1, 9))}, "invalid-input"),
            ({"selected_agent_slots": [1, True]}, "invalid-input"),
            ({"selected_agent_slots": 3}, "invalid-input"),
            ({"agent_names": {"8": "x"}}, "invalid-input"),
            ({"agent_names": {"1": "GM"}}, "invalid-input"),
            ({"agent_names": {"1": "Mara", "2": "mara"}}, "invalid-input"),
            ({"agent_names": {"one": "x"}}, "invalid-input"),
            ({"agent_names": {"\ud800": "x"}}, "invalid-input"),
            ({"agent_names": {"1": 5}}, "invalid-input"),
            ({"world_text": 5}, "invalid-input"),
            ({"world_text": "\x00"}, "invalid-input"),
            ({"world_text": "\ud800"}, "invalid-input"),
            ({"wrold_text": "x"}, "invalid-input"),
            ([], "invalid-input"),
            (None, "invalid-input"),
            ("text", "invalid-input"),
        ],
    )
    def test_what_is_wrong_is_refused_and_nothing_is_saved(self, body: Any, kind: str) -> None:
        chapter = make_chapter()
        before = call("GET", address(chapter, "tab1")).json()
        assert_problem(call("PUT", address(chapter, "tab1"), body), 422, kind)
        assert call("GET", address(chapter, "tab1")).json() == before

    def test_a_hundred_thousand_wrong_values_make_a_short_answer(self) -> None:
        response = call(
            "PUT", address(make_chapter(), "tab1"), {"selected_agent_slots": ["x"] * 100_000}
        )
        assert_problem(response, 422, "invalid-input")
        assert len(response.content) < 10_000


class TestTitle:
    def test_it_changes_the_title(self) -> None:
        response = call("PATCH", address(make_chapter()), {"title": "  Ice  "})
        assert (response.status_code, response.json()["title"]) == (200, "Ice")


class TestLengthOfReplies:
    @pytest.mark.parametrize("length", ["short", "normal", "long"])
    def test_it_is_changed_in_play(self, length: str) -> None:
        chapter = make_active_chapter(reply_length="short" if length == "long" else "long")
        response = call("PATCH", address(chapter), {"reply_length": length})
        assert (response.status_code, response.json()["reply_length"]) == (200, length)
        assert response.json()["title"] == chapter.title


class TestLanguage:
    def test_it_is_found_in_play_and_can_be_set_at_any_time(self) -> None:
        chapter = make_active_chapter()
        assert call("GET", address(chapter)).json()["language"] == ""
        add_prompts(chapter, 1, text="Wo ist die Laterne, und wer hat sie?", reply="Ich habe sie.")
        assert call("GET", address(chapter)).json()["language"] == "de"
        response = call("PATCH", address(chapter), {"language": "DE-at"})
        assert (response.status_code, response.json()["language"]) == (200, "de-AT")
        assert call("PATCH", address(chapter), {"language": ""}).json()["language"] == "de"


class TestNarrativeAgent:
    def test_it_saves_what_is_sent(self) -> None:
        chapter = make_chapter()
        first = call(
            "PUT",
            address(chapter, "narrative-agent"),
            {
                "narrative_agent_definition_text": "Past tense.",
                "target_words": 5_000,
            },
        )
        assert first.status_code == 200
        second = call("PUT", address(chapter, "narrative-agent"), {"target_words": 100})
        assert second.json() == {
            "narrative_agent_definition_text": "Past tense.",
            "target_words": 100,
        }
        document = call("GET", address(chapter)).json()
        assert second.json().items() <= document.items()

    @pytest.mark.parametrize(
        ("body", "kind"),
        [
            ({"narrative_agent_definition_text": "x" * 5_001}, "too-long"),
            ({"target_words": 5_001}, "invalid-input"),
            ({"target_words": 0}, "invalid-input"),
            ({"target_words": 10**40}, "invalid-input"),
            ({"target_words": 900.5}, "invalid-input"),
            ({"target_words": "900"}, "invalid-input"),
        ],
    )
    def test_what_is_wrong_is_refused(self, body: Any, kind: str) -> None:
        response = call("PUT", address(make_chapter(), "narrative-agent"), body)
        assert_problem(response, 422, kind)


class TestResetCopyDelete:
    def test_reset_opens_a_new_chapter_under_a_new_id(self) -> None:
        chapter = full_chapter()
        response = call("POST", address(chapter, "reset"))
        document = response.json()
        assert response.status_code == 201
        assert document["session_id"] != str(chapter.pk)
        assert document["state"] == "DRAFT_TAB1"
        assert document["events"] == document["memory_blocks"] == []
        assert_problem(call("GET", address(chapter)), 404, "unknown-chapter")

    def test_what_is_deleted_is_hidden_and_can_be_brought_back(self) -> None:
        chapter = full_chapter()
        before = call("GET", address(chapter)).json()
        response = call("DELETE", address(chapter))
        assert (response.status_code, response.content) == (204, b"")
        assert call("GET", "/api/session").json()["count"] == 0
        for method in ("GET", "DELETE"):
            assert_problem(call(method, address(chapter)), 404, "unknown-chapter")
        assert call("POST", address(chapter, "restore")).json() == before
        assert call("GET", address(chapter)).json() == before


class TestAPrecondition:
    def test_a_save_that_has_not_seen_another_one_is_refused(self) -> None:
        path = address(make_chapter(), "tab1")
        seen = call("GET", path)["ETag"]
        assert call("PUT", path, {"world_text": "One."}, If_Match=seen).status_code == 200
        problem = assert_problem(
            call("PUT", path, {"world_text": "Two."}, If_Match=seen), 412, "changed-since"
        )
        assert "Nothing was saved" in problem["detail"]
        answer = call("GET", path)
        assert answer.json()["world_text"] == "One."
        saved = call("PUT", path, {"world_text": "Two."}, If_Match=f"W/{answer['ETag']}")
        assert saved.status_code == 200
        assert saved["ETag"] == call("GET", path)["ETag"]
