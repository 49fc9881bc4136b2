import re
from typing import Any

import pytest
from django.test import Client

from agents.models import Job
from agents.tests.replies import turn_delta
from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Session, State
from sessions.tests.factories import add_reply
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import Element, all_of, by_id, get_page, prose_of

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture
def ended(chapter: Session) -> Session:
    chapter.state = State.ENDED
    chapter.save()
    return chapter


def build_button(html: str) -> Element:
    [button] = [one for one in all_of(html, "button") if one.words == "Build Narrative"]
    return button


def add_draft(chapter: Session, text: str) -> NarrativeDraft:
    return NarrativeDraft.objects.create(
        session=chapter, target_words=2500, source_snapshot={}, chapter_text=text
    )


def narrate(chapter: Session, **fields: Any) -> Job:
    return Job.objects.create(session=chapter, **{"kind": "narrate", "key": "n", **fields})


class TestMemory:
    def test_blocks_are_readable_and_their_json_is_at_hand(
        self, client: Client, chapter: Session
    ) -> None:
        html = get_page(client, chapter, "draft")
        lock, delta = all_of(html, "article", "memory-block")
        assert "the sea takes one name a year" in lock.words
        assert "THREAD-7" in delta.words
        details = all_of(html, "pre")
        assert '"memory_type": "turn_delta"' in details[1].text

    def test_new_memory_appears_without_a_reload(self, htmx: Client, chapter: Session) -> None:
        asked = by_id(get_page(htmx, chapter, "draft"), "draft-poll").attributes["hx-get"]
        assert htmx.get(asked).status_code == 204
        MemoryBlock.objects.create(
            session=chapter,
            type=MemoryBlock.Type.TURN_DELTA,
            from_prompt_index=8,
            to_prompt_index=14,
            json_payload=turn_delta(8, 14),
        )
        assert "THREAD-14" in by_id(htmx.get(asked).content.decode(), "memory").words


class TestNarrator:
    def test_instructions_and_length_are_saved_one_by_one(
        self, htmx: Client, ended: Session
    ) -> None:
        htmx.post(address(ended, "save-draft"), {"definition_text": "Close to Mara."})
        htmx.post(address(ended, "save-draft"), {"target_words": "3,000"})
        ended.refresh_from_db()
        assert ended.narrative_agent_definition_text == "Close to Mara."
        assert ended.target_words == 3000

    @pytest.mark.parametrize(
        "fields",
        [
            {"target_words": "5001"},
            {"target_words": "0"},
            {"target_words": "lots"},
            {"target_words": "-5"},
            {"target_words": ""},
            {"definition_text": "x" * 5001},
        ],
    )
    def test_what_cannot_be_accepted_is_refused(
        self, htmx: Client, ended: Session, fields: dict[str, str]
    ) -> None:
        assert htmx.post(address(ended, "save-draft"), fields).status_code == 422


class TestEstimate:
    def test_the_page_asks_for_it_and_does_not_wait(self, htmx: Client, ended: Session) -> None:
        asked = by_id(get_page(htmx, ended, "draft"), "build-estimate").attributes
        assert asked["hx-trigger"].startswith("load,")
        words = by_id(htmx.get(asked["hx-get"]).content.decode(), "build-estimate").words
        assert re.match(
            r"About 2,500 words\. About [0-9,]+ tokens to read and 4,000 to write \(four tokens "
            r"are about three words\), in 1 call or more: a scene that comes out short",
            words,
        )

    def test_what_cannot_be_built_says_why(self, htmx: Client, ended: Session) -> None:
        Session.objects.filter(pk=ended.pk).update(narrative_agent_definition_text="x" * 3_000_000)
        assert "too long" in by_id(self.ask(htmx, ended), "build-estimate").words

    def ask(self, htmx: Client, chapter: Session) -> str:
        return htmx.get(address(chapter, "build-estimate")).content.decode()


class TestBuild:
    def test_only_an_ended_chapter_can_be_built(self, htmx: Client, chapter: Session) -> None:
        html = get_page(htmx, chapter, "draft")
        assert "disabled" in build_button(html).attributes
        assert "End the chapter on Tab 2 first" in html.replace("\n", " ") or "Tab 2" in html
        assert htmx.post(address(chapter, "build")).status_code == 409

    def test_it_starts_and_shows_its_progress(self, htmx: Client, ended: Session) -> None:
        assert "disabled" not in build_button(get_page(htmx, ended, "draft")).attributes
        html = htmx.post(address(ended, "build")).content.decode()
        assert all_of(html, "progress")
        assert "hx-get" in by_id(html, "draft-poll").attributes
        assert "Cancel" in by_id(html, "draft-area").words

    def test_words_scene_and_text_grow(self, htmx: Client, ended: Session) -> None:
        Session.objects.filter(pk=ended.pk).update(state=State.NARRATING)
        job = narrate(ended)
        asked = by_id(get_page(htmx, ended, "draft"), "draft-poll").attributes["hx-get"]
        assert htmx.get(asked).status_code == 204
        job.progress = {"words": 1904, "target_words": 5000, "scene": 2, "scenes": 3}
        job.partial_text = f"The light went out. {HOSTILE}"
        job.save()
        html = htmx.get(asked).content.decode()
        assert "scene 2 of 3 · 1,904 of 5,000 words" in by_id(html, "draft-area").words
        [progress] = all_of(html, "progress")
        assert progress.attributes["value"] == "1904"
        assert HOSTILE not in html
        # The answer to a poll does not replace the memory on the page, because the user may be
        # reading the memory.
        assert not all_of(html, "div", id="memory")

    def test_that_it_is_finished_is_spoken_once(self, htmx: Client, ended: Session) -> None:
        add_draft(ended, "The first one.")
        Session.objects.filter(pk=ended.pk).update(state=State.NARRATING)
        job = narrate(ended, progress={"words": 2})
        asked = by_id(get_page(htmx, ended, "draft"), "draft-poll").attributes["hx-get"]
        job.progress = {"words": 3}
        job.save()
        assert not all_of(htmx.get(asked).content.decode(), "p", id="said")
        Session.objects.filter(pk=ended.pk).update(state=State.ENDED)
        Job.objects.filter(pk=job.pk).update(status="done")
        add_draft(ended, "The light went out.")
        html = htmx.get(asked).content.decode()
        said = by_id(html, "said")
        assert said.words == "Draft 2 is finished: 4 words."
        # The words come into the live region that the page has.
        assert said.attributes["hx-swap-oob"] == "innerHTML"
        assert 'id="said" role="status"' in get_page(htmx, ended, "draft")
        assert "building" not in htmx.get(asked).content.decode().partition('id="draft-poll"')[2]

    @pytest.mark.parametrize(
        ("status", "words"), [("failed", "was not finished"), ("cancelled", "was cancelled")]
    )
    def test_another_end_is_spoken_too(
        self, htmx: Client, ended: Session, status: str, words: str
    ) -> None:
        Session.objects.filter(pk=ended.pk).update(state=State.NARRATING)
        job = narrate(ended)
        asked = by_id(get_page(htmx, ended, "draft"), "draft-poll").attributes["hx-get"]
        Session.objects.filter(pk=ended.pk).update(state=State.ENDED)
        Job.objects.filter(pk=job.pk).update(status=status)
        html = htmx.get(asked).content.decode()
        [alert] = [one for one in all_of(html, "div", "message", role="alert") if one.words]
        assert words in alert.words
        assert not all_of(html, "p", id="said")

    def test_cancel_leaves_the_draft_that_is_read(self, htmx: Client, ended: Session) -> None:
        for number in (1, 2):
            add_draft(ended, f"Draft text {number}.")
        htmx.post(address(ended, "build"))
        html = get_page(htmx, ended, "draft", draft="1")
        [cancel] = all_of(html, "form", action=address(ended, "cancel"))
        fields = {
            one.attributes["name"]: one.attributes["value"]
            for one in all_of(html, "input")
            if cancel in one.parents
        }
        html = htmx.post(cancel.attributes["action"], fields).content.decode()
        assert prose_of(html) == "Draft text 1."

    def test_a_failed_build_says_what_was_kept(self, client: Client, ended: Session) -> None:
        narrate(
            ended, status="failed", error="Too busy. 2 scenes are kept.", partial_text="So far."
        )
        html = get_page(client, ended, "draft")
        [message] = all_of(html, "div", "message-error")
        assert "2 scenes are kept." in message.words
        assert "So far." in message.words
        assert "disabled" not in build_button(html).attributes


class TestDrafts:
    def test_the_newest_is_shown_and_all_are_reachable(
        self, client: Client, ended: Session
    ) -> None:
        for number in (1, 2, 3):
            add_draft(ended, f"Draft text {number}.")
        html = get_page(client, ended, "draft")
        assert prose_of(html) == "Draft text 3."
        [drafts] = all_of(html, "nav", "drafts")
        assert drafts.words.split("Draft ") == ["", "1", "2", "3"]
        assert prose_of(get_page(client, ended, "draft", draft="1")) == "Draft text 1."

    @pytest.mark.parametrize("asked", ["9", "0", "-1", "first", "²"])
    def test_a_draft_that_is_not_there_is_the_newest(
        self, client: Client, ended: Session, asked: str
    ) -> None:
        add_draft(ended, "The only one.")
        assert prose_of(get_page(client, ended, "draft", draft=asked)) == "The only one."

    def test_one_that_tells_another_reply_than_the_chosen_one_says_so(
        self, client: Client, ended: Session
    ) -> None:
        first = ended.turns.get(number=8).chosen
        second = add_reply(ended, 8, "Or so.")
        for attempt, text in ((first, "Of the first."), (second, "Of the second.")):
            NarrativeDraft.objects.create(
                session=ended,
                attempt=attempt,
                target_words=2500,
                source_snapshot={"max_prompt_index_used": 8, "memory_block_ids_used": []},
                chapter_text=text,
            )
        said = "This draft tells another reply to prompt 8"
        assert said in get_page(client, ended, "draft", draft="1")
        assert said not in get_page(client, ended, "draft", draft="2")
        ended.turns.filter(number=8).update(chosen=first)
        assert said not in get_page(client, ended, "draft", draft="1")
        assert said in get_page(client, ended, "draft", draft="2")

    def test_until_there_is_one_download_is_disabled_and_says_why(
        self, client: Client, ended: Session
    ) -> None:
        def download(why: str) -> Element:
            html = get_page(client, ended, "draft")
            [button] = [one for one in all_of(html, "button") if one.words == "Download Chapter"]
            assert why in by_id(html, button.attributes["aria-describedby"]).words
            return button

        assert "disabled" in download("no draft to download yet").attributes
        ended.state = State.NARRATING
        ended.save()
        narrate(ended, status=Job.Status.RUNNING)
        assert "disabled" in download("As soon as the first draft is finished").attributes
        add_draft(ended, "One.")
        html = get_page(client, ended, "draft")
        [button] = [one for one in all_of(html, "button") if one.words == "Download Chapter"]
        assert "disabled" not in button.attributes

    def test_the_number_of_queries_is_bounded(
        self, client: Client, ended: Session, django_assert_max_num_queries: Any
    ) -> None:
        for number in range(10):
            add_draft(ended, f"Draft text {number}.")
        with django_assert_max_num_queries(18):
            get_page(client, ended, "draft")
