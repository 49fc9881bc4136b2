import re
from datetime import timedelta

import pytest
from django.test import Client
from pytest_django import Settings

from agents.calling.consent import grant
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import EmbeddedServer, Job
from sessions.chapter.chapters import create_chapter
from sessions.leases import from_now
from sessions.models import Session, State
from sessions.tests.factories import make_active_chapter, make_cast, make_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of, by_id
from testing.refusals import IS_LOCKED

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

    def test_text_that_begins_with_a_line_break_keeps_it(
        self, client: Client, draft: Session
    ) -> None:
        client.post(address(draft, "save-world"), {"world_text": "\n\nTwo lines down."})
        html = client.get(address(draft, "world")).content.decode()
        # The text begins with two line breaks. A browser drops the first line break in a text
        # field, so the page writes three.
        assert by_id(html, "world-text").text == "\n\n\nTwo lines down."

    def test_the_counter_counts_code_points(self, client: Client, draft: Session) -> None:
        client.post(address(draft, "save-world"), {"world_text": "😀\r\n😀"})
        html = client.get(address(draft, "world")).content.decode()
        [count] = all_of(html, "output", **{"data-counts": "world-text"})
        assert count.words == "3/5,000"

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

    @pytest.mark.parametrize(
        ("typed", "is_offered"),
        [
            ({"world_text": " \n"}, True),
            ({"name_1": "Agent Red"}, True),
            ({"name_1": "Mara"}, False),
            ({"identity_7": "x"}, False),
            ({"pronouns_1": "she/her"}, False),
            ({"public_7": "x"}, False),
        ],
    )
    def test_the_example_is_offered_where_it_can_be_had(
        self, client: Client, typed: dict[str, str], is_offered: bool
    ) -> None:
        chapter = create_chapter()
        client.post(address(chapter, "save-world"), typed)
        html = client.get(address(chapter, "world")).content.decode()
        assert ("Fill in the example" in html) == is_offered
        accepted = client.post(address(chapter, "example")).status_code == 302
        assert accepted == is_offered

    def test_everything_typed_is_escaped(self, client: Client) -> None:
        hostile = "</textarea><script>alert(1)</script>\"' onfocus=x"
        chapter = make_chapter(title=hostile, agent_names={"1": hostile})
        client.post(address(chapter, "save-world"), {"world_text": hostile, "identity_1": hostile})
        html = client.get(address(chapter, "world")).content.decode()
        assert "<script>alert" not in html
        assert by_id(html, "world-text").text == "\n" + hostile
        assert by_id(html, "name-1").attributes["value"] == hostile
        assert "onfocus" not in by_id(html, "name-1").attributes

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

    def test_locked_it_asks_for_nothing_any_more(self, client: Client) -> None:
        asked = ("Who is this?", "Where and when are we?", "What happens now", "1 to 7.")
        for chapter in (make_chapter(), make_active_chapter()):
            html = client.get(address(chapter, "world")).content.decode()
            is_open = chapter.state == State.DRAFT_TAB1
            assert [one in html for one in asked] == [is_open] * 4
            fields = [*all_of(html, "textarea"), *all_of(html, "input")]
            form = [one for one in fields if one.attributes.get("id") != "title"]
            assert any("placeholder" in one.attributes for one in form) == is_open
            # A locked page leaves out the label of an empty field.
            assert ("Pronouns" in html) == is_open
            assert by_id(html, "identity-1").text == "\nA ferrywoman."

    def test_unlocked_there_is_no_reset(self, client: Client, draft: Session) -> None:
        assert "Reset Chapter" not in client.get(address(draft, "world")).content.decode()

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

    def test_the_link_to_tab_2_asks_before_the_lock(self, client: Client, draft: Session) -> None:
        html = client.get(address(draft, "world")).content.decode()
        openers = all_of(html, "a", **{"data-opens": "lock-dialog"})
        assert {one.attributes["href"] for one in openers} == {address(draft, "play")}
        assert len(openers) == 2
        assert (
            "this page can be read and copied, but not changed" in by_id(html, "lock-dialog").words
        )


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

    def test_how_many_prompts_a_summary_covers_is_saved_and_shown(
        self, htmx: Client, draft: Session
    ) -> None:
        assert htmx.post(address(draft, "save-world"), {"chunk_size": "5"}).status_code == 204
        html = htmx.get(address(draft, "world")).content.decode()
        chosen = [one for one in all_of(html, "option") if "selected" in one.attributes]
        # The last one is the language, which nobody has set.
        assert [one.attributes["value"] for one in chosen] == ["3", "5", ""]
        for refused in ("2", "21", "x", ""):
            answer = htmx.post(address(draft, "save-world"), {"chunk_size": refused})
            assert answer.status_code == 422
        draft.refresh_from_db()
        assert draft.chunk_size_prompts == 5

    def test_they_can_be_read_and_not_written_once_the_chapter_has_begun(
        self, htmx: Client
    ) -> None:
        chapter = make_active_chapter()
        make_cast(chapter, public_text={"1": "The ferrywoman."})
        html = htmx.get(address(chapter, "world")).content.decode()
        assert by_id(html, "public-1").words == "The ferrywoman."
        assert not all_of(html, "input", name="public_1")
        assert htmx.post(address(chapter, "save-world"), {"public_1": "x"}).status_code == 423

    def test_the_number_of_agents_hides_and_loses_nothing(
        self, htmx: Client, draft: Session
    ) -> None:
        htmx.post(address(draft, "save-world"), {"agent_count": "1"})
        draft.refresh_from_db()
        assert draft.selected_agent_slots == [1]
        assert draft.agent_texts("identity_text")["3"] == "A child."

    def test_a_plain_form_returns_to_the_tab(self, client: Client, draft: Session) -> None:
        response = client.post(address(draft, "save-world"), {"name_1": "Mara"})
        draft.refresh_from_db()
        assert response["Location"] == address(draft, "world")
        assert draft.agent_names == {"1": "Mara", "2": "Agent Orange", "3": "Agent Yellow"}

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

    def test_exactly_the_cap_is_accepted(self, htmx: Client, draft: Session) -> None:
        text = "😀" * 4999 + "\r\n"
        assert htmx.post(address(draft, "save-world"), {"world_text": text}).status_code == 204

    def test_locked_it_is_refused(self, htmx: Client, chapter: Session) -> None:
        response = htmx.post(address(chapter, "save-world"), {"world_text": "Other."})
        assert response.status_code == 423
        assert IS_LOCKED in response.content.decode()
        assert "copy them" in response.content.decode()
        assert "Show the chapter as it is now" in response.content.decode()

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


class TestExample:
    def test_it_fills_an_empty_tab_1(self, client: Client) -> None:
        client.post("/chapters/new")
        chapter = Session.objects.get()
        response = client.post(address(chapter, "example"))
        chapter.refresh_from_db()
        assert response["Location"] == address(chapter, "world")
        assert chapter.tab1.world_text
        assert len(chapter.selected_agent_slots) == 3


class TestLock:
    def test_it_leads_to_tab_2_which_waits(self, htmx: Client, draft: Session) -> None:
        response = htmx.post(address(draft, "lock"))
        draft.refresh_from_db()
        assert response["HX-Redirect"] == address(draft, "play")
        assert draft.state == State.LOCKING

    def test_an_empty_world_and_chapter_is_refused(self, htmx: Client, draft: Session) -> None:
        htmx.post(address(draft, "save-world"), {"world_text": " ", "chapter_text": ""})
        response = htmx.post(address(draft, "lock"))
        assert response.status_code == 422
        assert "both empty" in response.content.decode()

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
    def test_nothing_new_is_not_sent_again(self, htmx: Client, draft: Session) -> None:
        htmx.post(address(draft, "lock"))
        html = htmx.get(address(draft, "play")).content.decode()
        asked = by_id(html, "locking").attributes["hx-get"]
        assert htmx.get(asked).status_code == 204

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

    def test_more_words_are_news_and_the_same_words_are_none(
        self, htmx: Client, draft: Session
    ) -> None:
        htmx.post(address(draft, "lock"))
        write(draft, '{"world": {"genre": "myst')
        asked = by_id(htmx.get(address(draft, "play")).content.decode(), "locking")
        assert htmx.get(asked.attributes["hx-get"]).status_code == 204
        write(draft, '{"world": {"genre": "mystery')
        news = htmx.get(asked.attributes["hx-get"]).content.decode()
        assert "mystery" in all_of(news, "dl", "lock-fields")[0].words

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

    def test_after_a_failure_it_leads_back_to_tab_1(self, htmx: Client, draft: Session) -> None:
        response = htmx.get(address(draft, "lock-status"))
        assert response["HX-Redirect"] == address(draft, "world")

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

    def test_a_model_that_stands_in_is_nothing_to_wait_for(
        self, htmx: Client, draft: Session, settings: Settings
    ) -> None:
        htmx.post(address(draft, "lock"))
        settings.LLM = "embedded"
        EmbeddedServer.objects.create(phase="ready", model="small", message=STAND_IN)
        html = htmx.get(address(draft, "lock-status")).content.decode()
        assert "The model is reading" in html


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

    def test_who_waited_for_a_model_is_told_that_another_stands_in(
        self, htmx: Client, draft: Session, settings: Settings
    ) -> None:
        settings.LLM = "embedded"
        server = EmbeddedServer.objects.create(phase="loading", model="large")
        html = htmx.get(address(draft, "world")).content.decode()
        asked = by_id(html, "model-notice").attributes["hx-get"]
        assert "being loaded" in htmx.get(asked).content.decode()
        server.phase, server.message = "ready", STAND_IN
        server.save()
        assert by_id(htmx.get(asked).content.decode(), "model-notice").words == STAND_IN

    def test_a_model_that_is_ready_is_not_mentioned(self, htmx: Client) -> None:
        assert not htmx.get("/model-status").content.strip()


def write(chapter: Session, text: str) -> None:
    """Store the text as what agent 0 has written of the lock so far."""
    locks = chapter.jobs.filter(kind=Job.Kind.LOCK)
    locks.update(
        status=Job.Status.RUNNING, partial_text=text, lease_until=from_now(timedelta(minutes=1))
    )
