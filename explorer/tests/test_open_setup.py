"""What guides the narrator can be changed in play, on Tab 2 and through the API."""

import json
import threading
from typing import Any

import pytest
from django.test import Client

from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from explorer.setup import exploration_of
from explorer.tests.playing import TAVERN, begin, calls, move, play, scripted
from sessions.chapter.chapters import is_setup_open
from sessions.models import Session
from storyengine.api.tests.calling import address, call
from storyengine.tabs.seen_values import mark_of

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]

NOTE = {"text": "NOTE-NEW", "depth": 1, "role": "user"}


def setup_now(chapter: Session) -> dict[str, Any]:
    found: dict[str, Any] = call("GET", address(chapter, "setup")).json()
    return found


def save_in_play(client: Client, chapter: Session, fields: dict[str, str], **headers: str) -> Any:
    return client.post(f"/chapters/{chapter.pk}/play/setup", fields, headers=headers)


def seen(value: str) -> dict[str, str]:
    return {"HX-Request": "true", "X-Seen": mark_of(value)}


class TestApi:
    def test_an_open_field_changes_and_counts_from_the_next_attempt(
        self, scripted: ScriptedProvider
    ) -> None:
        chapter = begin()
        scripted.enqueue("A fire.", "Smoke.")
        play(chapter)
        changed = call("PATCH", address(chapter, "setup"), {"note": NOTE})
        assert changed.status_code == 200, changed.content
        assert changed.json()["note"] == NOTE
        play(chapter)
        first, second = ("".join(m.content for m in one.messages) for one in scripted.history)
        assert "NOTE-NEW" not in first
        assert "NOTE-NEW" in second

    def test_a_running_reply_goes_on_as_it_began(self, scripted: ScriptedProvider) -> None:
        chapter = begin({**TAVERN, "note": {"text": "NOTE-OLD"}})

        def answer(request: ModelRequest) -> Any:
            saved: list[int] = []
            thread = threading.Thread(
                target=lambda: saved.append(
                    call("PATCH", address(chapter, "setup"), {"note": NOTE}).status_code
                )
            )
            thread.start()
            thread.join()
            assert saved == [200]
            return "The wheel turns."

        scripted.enqueue(calls("", move("The Mill")))
        scripted.fallback = answer
        play(chapter)
        play(chapter)
        texts = ["".join(m.content for m in one.messages) for one in scripted.history]
        # The note is changed while the second step is written; the third call is the next attempt.
        assert ["NOTE-OLD" in text for text in texts] == [True, True, False]
        assert ["NOTE-NEW" in text for text in texts] == [False, False, True]

    @pytest.mark.parametrize(
        ("fields", "status"),
        [
            ({"note": {"text": "x" * 2_001}}, 422),
            ({"lorebook": {"entries": [{"content": "x" * 5_001}]}}, 422),
            ({"lorebook": {"entries": [{}] * 101}}, 422),
            ({"talk": [{}] * 31}, 422),
            ({"note": {"role": "tool"}}, 422),
            ({"nothing": 1}, 422),
            ({"people": 5, "places": [{"nobody": 1}]}, 422),
            ({"title": "Another"}, 409),
            ({"note": {"text": "Both."}, "people": []}, 409),
        ],
    )
    def test_what_is_refused_changes_nothing(self, fields: dict[str, Any], status: int) -> None:
        chapter = begin()
        before = setup_now(chapter)
        assert call("PATCH", address(chapter, "setup"), fields).status_code == status
        assert setup_now(chapter) == before

    def test_tab_1_has_the_fields_too_before_and_after_the_lock(self) -> None:
        made = call("POST", "/api/session", {"mode": "explorer"}).json()
        chapter = Session.objects.get(pk=made["session_id"])
        saved = call("PUT", address(chapter, "tab1"), {"setup": {"style": "Dry.", "note": NOTE}})
        assert saved.status_code == 200, saved.content
        assert call("GET", address(chapter, "tab1")).json()["setup"]["style"] == "Dry."
        both = {"chunk_size_prompts": 5, "setup": {"people": [{"name": "Osk"}]}}
        assert call("PUT", address(chapter, "tab1"), both).json()["chunk_size_prompts"] == 5
        call("POST", address(chapter, "lock"))
        later = {"setup": {"note": {"text": "Later."}}}
        assert call("PUT", address(chapter, "tab1"), later).status_code == 200
        assert setup_now(chapter)["note"]["text"] == "Later."
        for closed in ({"setup": {"style": "Wet."}}, {**later, "chunk_size_prompts": 7}):
            assert call("PUT", address(chapter, "tab1"), closed).status_code == 409
        assert setup_now(chapter)["style"] == "Dry."

    def test_what_somebody_else_has_changed_is_not_overwritten(self, client: Client) -> None:
        chapter = begin()
        where = f"/api{address(chapter, 'setup').removeprefix('/api')}"
        tag = client.get(where).headers["ETag"]

        def patch(text: str, tag: str) -> int:
            body = json.dumps({"note": {"text": text}})
            return client.patch(
                where, body, content_type="application/json", headers={"If-Match": tag}
            ).status_code

        assert patch("Mine.", tag) == 200
        assert patch("Stale.", tag) == 412
        assert setup_now(chapter)["note"]["text"] == "Mine."
        assert patch("Fresh.", client.get(where).headers["ETag"]) == 200


class TestPage:
    def test_the_cells_stand_beside_the_transcript(self, client: Client) -> None:
        chapter = begin({**TAVERN, "note": {"text": "NOTE-OLD"}})
        page = client.get(f"/chapters/{chapter.pk}/play").content.decode()
        assert "NOTE-OLD" in page
        assert "js/conflict" in page
        assert "Add an entry" in page
        # The names of hidden people are no business of the player's.
        assert "Marta Quill" not in page

    def test_a_field_saves_itself_and_gets_a_mark(self, client: Client) -> None:
        chapter = begin()
        saved = save_in_play(client, chapter, {"setup.note.text": "Dread."}, **seen(""))
        assert saved.status_code == 204
        assert saved.headers["X-Seen"] == mark_of("Dread.")
        assert exploration_of(Session.objects.get()).note.text == "Dread."
        assert not is_setup_open(Session.objects.get())

    def test_without_scripts_a_whole_form_is_saved(self, client: Client) -> None:
        chapter = begin()
        fields = {"setup.note.text": "Dread.", "setup.note.depth": "0", "seen_values": "{}"}
        saved = save_in_play(client, chapter, fields)
        assert saved.status_code == 302
        assert saved.headers["Location"].endswith("/play?open=cells")
        page = client.get(saved.headers["Location"]).content.decode()
        assert 'id="open-cells" open' in page
        assert exploration_of(Session.objects.get()).note.depth == 0

    def test_entries_are_added_and_removed_in_play(self, client: Client) -> None:
        chapter = begin()
        pages = f"/modes/explorer/{chapter.pk}"
        added = client.post(f"{pages}/lore")
        assert added.headers["Location"] == f"/chapters/{chapter.pk}/play?open=cells#lore"
        assert len(exploration_of(Session.objects.get()).lorebook.entries) == 1
        client.post(f"{pages}/lore/0/remove")
        assert not exploration_of(Session.objects.get()).lorebook.entries
        # What is not open stays closed.
        assert client.post(f"{pages}/places").status_code == 409
