import re
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from agents.calling.consent import grant
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import EmbeddedServer, Job
from sessions.leases import from_now
from sessions.models import Session, State
from sessions.tests.factories import make_cast, make_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id

pytestmark = pytest.mark.django_db

WARNING = (
    "Warning, resetting the chapter will delete all cells from the Story Engine, please make sure "
    "you have saved any and all character and setting information before you reset."
)


STAND_IN = "The large model could not be fetched. The small one answers instead."


class TestShowWorld:
    def test_four_cells(self, client: Client, draft: Session) -> None:
        html = client.get(address(draft, "world")).content.decode()
        assert len(all_of(html, "section", "cell")) == 4
        assert by_id(html, "world-text").text == "\n" + draft.tab1.world_text
        values = [one.attributes["value"] for one in all_of(html, "option")]
        assert values[:25] == [*"1234567", *map(str, range(3, 21))]
        # The last choice is that of a language, at first none.
        assert values[25] == ""

    def test_one_panel_per_agent_and_hidden_ones_keep_their_text(
        self, client: Client, draft: Session
    ) -> None:
        make_cast(draft, [1, 2])
        html = client.get(address(draft, "world")).content.decode()
        pills = all_of(html, "label", "pill")
        assert [pill.words for pill in pills[:3]] == [
            "1 Agent Red",
            "2 Agent Orange",
            "3 Agent Yellow",
        ]
        assert [
            pill.attributes["data-pill"] for pill in pills if "hidden" not in pill.attributes
        ] == [
            "1",
            "2",
        ]
        assert by_id(html, "identity-3").text == "\nA child."

    def test_only_an_empty_one_offers_the_example(self, client: Client, draft: Session) -> None:
        offer = "Fill in the example"
        assert offer not in client.get(address(draft, "world")).content.decode()
        client.post(
            address(draft, "save-world"),
            {
                "world_text": "",
                "chapter_text": "",
                "identity_1": "",
                "identity_2": "",
                "identity_3": "",
            },
        )
        assert offer in client.get(address(draft, "world")).content.decode()

    def test_locked_it_can_be_read_and_only_be_reset(
        self, client: Client, chapter: Session
    ) -> None:
        html = client.get(address(chapter, "world")).content.decode()
        assert by_id(html, "setup").has_class("is-locked")
        assert all("readonly" in field.attributes for field in all_of(html, "textarea"))
        assert not all_of(html, "textarea", **{"data-autosave": ""})
        dialog = by_id(html, "reset-dialog")
        assert WARNING in dialog.words
        assert "Download everything first" in dialog.words
        assert "Confirm" in dialog.words
        assert "Cancel" in dialog.words
        assert "New story with this setup" in html
        assert (
            "what you wrote here stays as the characters know it" in by_id(html, "locked-why").words
        )

    def test_a_failed_lock_is_explained_and_tab_1_is_open(
        self, client: Client, draft: Session
    ) -> None:
        Job.objects.create(
            session=draft, kind="lock", key="lock", status="failed", error="No <connection>."
        )
        html = client.get(address(draft, "world")).content.decode()
        [message] = all_of(html, "div", "message-error")
        assert "No <connection>." in message.words
        assert "readonly" not in by_id(html, "world-text").attributes


class TestSave:
    def test_one_field_is_saved_and_the_others_stay(self, htmx: Client, draft: Session) -> None:
        response = htmx.post(address(draft, "save-world"), {"identity_2": "A\r\nprior."})
        draft.refresh_from_db()
        assert response.status_code == 204
        assert draft.tab1.world_text == "A harbour town at the edge of the ice."
        assert draft.agent_texts("identity_text") == {
            "1": "A ferrywoman.",
            "2": "A\nprior.",
            "3": "A child.",
        }

    def test_pronouns_and_what_everybody_may_know_are_saved_and_shown(
        self, htmx: Client, draft: Session
    ) -> None:
        sent = {"pronouns_2": "he/him", "public_2": "The priest of Harl."}
        for name, text in sent.items():
            assert htmx.post(address(draft, "save-world"), {name: text}).status_code == 204
        html = htmx.get(address(draft, "world")).content.decode()
        for name, text in sent.items():
            [field] = all_of(html, "input", name=name)
            assert field.attributes["value"] == text
            assert "data-autosave" in field.attributes
            assert field.attributes["id"] in [
                label.attributes.get("for") for label in all_of(html, "label")
            ]
        assert [all_of(html, "input", name=name)[0].attributes["data-limit"] for name in sent] == [
            "40",
            "200",
        ]

    def test_the_number_of_agents_hides_and_loses_nothing(
        self, htmx: Client, draft: Session
    ) -> None:
        htmx.post(address(draft, "save-world"), {"agent_count": "1"})
        draft.refresh_from_db()
        assert draft.selected_agent_slots == [1]
        assert draft.agent_texts("identity_text")["3"] == "A child."

    @pytest.mark.parametrize(
        "fields",
        [
            {"world_text": "x" * 5001},
            {"identity_1": "😀" * 5001},
            {"name_1": "n" * 61},
            {"world_text": "a\x00b"},
            {"agent_count": "0"},
            {"agent_count": "8"},
            {"agent_count": "999999999"},
            {"agent_count": "many"},
            {"name_8": "Nobody"},
            {"name_1": "3)"},
            {"name_1": "agent orange"},
        ],
    )
    def test_what_cannot_be_accepted_is_refused_beside_the_field(
        self, htmx: Client, draft: Session, fields: dict[str, str]
    ) -> None:
        response = htmx.post(address(draft, "save-world"), fields)
        assert response.status_code == 422
        assert response["HX-Retarget"].startswith("find .refusal, next .refusal")
        assert "message-error" in response.content.decode()

    def test_while_it_is_being_locked_a_later_try_may_help(self, htmx: Client) -> None:
        starting = make_chapter(state=State.LOCKING)
        response = htmx.post(address(starting, "save-world"), {"world_text": "Other."})
        assert response.status_code == 409

    def test_a_refused_plain_form_gives_the_words_back(
        self, client: Client, chapter: Session
    ) -> None:
        response = client.post(address(chapter, "save-world"), {"world_text": "My <b>words</b>."})
        assert response.status_code == 423
        [field] = all_of(response.content.decode(), "textarea")
        assert field.text == "\nMy <b>words</b>."


class TestLock:
    def test_it_leads_to_tab_2_which_waits(self, htmx: Client, draft: Session) -> None:
        response = htmx.post(address(draft, "lock"))
        draft.refresh_from_db()
        assert response["HX-Redirect"] == address(draft, "play")
        assert draft.state == State.LOCKING

    def test_a_foreign_host_must_be_allowed_first(
        self, htmx: Client, draft: Session, provider: ScriptedProvider
    ) -> None:
        provider.host = "models.example.com"
        response = htmx.post(address(draft, "lock"))
        assert response.status_code == 403
        [link] = all_of(response.content.decode(), "a")
        assert link.attributes["href"] == f"/consent/?chapter={draft.pk}"
        grant("models.example.com")
        assert "HX-Redirect" in htmx.post(address(draft, "lock"))


class TestLockStatus:
    def test_the_wait_is_counted_for_the_eye_only(self, htmx: Client, draft: Session) -> None:
        htmx.post(address(draft, "lock"))
        html = htmx.get(address(draft, "play")).content.decode()
        [waited] = all_of(html, "span", "waited")
        assert waited.attributes["aria-hidden"] == "true"
        assert waited.attributes["data-waited"].isdecimal()

    def test_it_shows_the_tokens_and_the_fields_that_have_arrived(
        self, htmx: Client, draft: Session
    ) -> None:
        htmx.post(address(draft, "lock"))
        write(draft, '{"world": {"genre": "myst<b>ery", "tone": "dr')
        html = htmx.get(address(draft, "play")).content.decode()
        assert re.search(r"about \d+ of about [\d,]+ tokens", by_id(html, "locking").words)
        [fields] = all_of(html, "dl", "lock-fields")
        assert fields.words == "Worldmyst<b>ery; dr"
        [progress] = all_of(html, "progress")
        assert progress.attributes["max"] == "100"

    def test_a_screen_reader_is_told_of_each_quarter_once(
        self, htmx: Client, draft: Session
    ) -> None:
        htmx.post(address(draft, "lock"))
        page = htmx.get(address(draft, "play")).content.decode()
        [said] = all_of(page, "p", id="lock-said")
        assert said.attributes["role"] == "status"
        told = []
        asked = by_id(page, "locking").attributes["hx-get"]
        for length in range(100, 3_000, 400):
            write(draft, '{"world": {"genre": "' + "x" * length)
            html = htmx.get(asked).content.decode()
            told += [one.words for one in all_of(html, "p", id="lock-said")]
            asked = by_id(html, "locking").attributes["hx-get"]
        assert len(told) == len(set(told)) == 4
        assert told[0] == "The model has begun to write."
        assert told[-1].startswith("About 3 of 4 quarters")

    def test_afterwards_it_leads_to_play(self, htmx: Client, chapter: Session) -> None:
        response = htmx.get(address(chapter, "lock-status"))
        assert response["HX-Redirect"] == address(chapter, "play")

    def test_it_says_how_far_the_embedded_model_is(
        self, htmx: Client, draft: Session, settings: Settings
    ) -> None:
        htmx.post(address(draft, "lock"))
        settings.LLM = "embedded"
        EmbeddedServer.objects.create(
            phase="fetching", model="m", bytes_done=40_000_000, bytes_total=100_000_000
        )
        html = htmx.get(address(draft, "lock-status")).content.decode()
        assert "40 of 100 MB" in html
        [progress] = all_of(html, "progress")
        assert progress.attributes["value"] == "40000000"


class TestModelStatus:
    @pytest.mark.parametrize("page", ["world", "play", "draft"])
    def test_a_model_that_stands_in_is_named_for_good(
        self, client: Client, draft: Session, chapter: Session, settings: Settings, page: str
    ) -> None:
        settings.LLM = "embedded"
        EmbeddedServer.objects.create(phase="ready", model="small", message=STAND_IN)
        shown = draft if page == "world" else chapter
        html = client.get(address(shown, page)).content.decode()
        notice = by_id(html, "model-notice")
        assert notice.words == STAND_IN
        # The page does not poll for this notice, because it will not change.
        assert "hx-get" not in notice.attributes


def write(chapter: Session, text: str) -> None:
    """Store the text as what agent 0 has written of the lock so far."""
    locks = chapter.jobs.filter(kind=Job.Kind.LOCK)
    locks.update(
        status=Job.Status.RUNNING, partial_text=text, lease_until=from_now(timedelta(minutes=1))
    )
