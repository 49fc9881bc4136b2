from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from memory.models import NarrativeDraft
from sessions.chapter import stories
from sessions.chapter.starters import all_starters
from sessions.chapter.stories import begin_next_chapter
from sessions.models import Event, Session, State
from sessions.tests.factories import add_prompts, add_turn, make_active_chapter, make_chapter
from storyengine.exchange.forking import fork_chapter
from storyengine.tabs.tests.addresses import address
from storyengine.tabs.tests.reading import all_of

pytestmark = pytest.mark.django_db


def add_draft(chapter: Session, text: str) -> None:
    NarrativeDraft.objects.create(
        session=chapter, target_words=100, source_snapshot={}, chapter_text=text
    )


class TestLibrary:
    def test_an_empty_one_invites(self, client: Client) -> None:
        html = client.get("/").content.decode()
        assert "Start your first chapter" in html
        starters = [reverse("pages:begin-starter", args=[one.name]) for one in all_starters()]
        explored = reverse("explorer:begin", args=["last-ferry"])
        # A finished world to explore takes the place of the last starter.
        assert [one.attributes["action"] for one in all_of(html, "form")] == [
            *(*starters[:-1], explored, reverse("pages:import"))
        ]

    def test_it_lists_stories_with_their_chapters(self, client: Client) -> None:
        chapter = make_active_chapter(title="The Dark Lamp", prompt_index=8)
        html = client.get("/").content.decode()
        [story] = all_of(html, "article", "shelf-story")
        for words in ("The Dark Lamp", "1 chapter", "In play", "8 prompts", "just now"):
            assert words in story.words
        assert "Agent Yellow" in story.words
        [go_on] = [one for one in all_of(html, "a") if one.words == "Continue"]
        assert go_on.attributes["href"] == address(chapter, "chapter")

    def test_a_chapter_in_play_shows_what_was_said_last(self, client: Client) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 2)
        said = Event.objects.filter(session=chapter, role=Event.Role.AGENT).last()
        assert said
        [line] = all_of(client.get("/").content.decode(), "li", "chapter-line")
        assert said.text in line.words

    def test_no_line_quotes_words_in_which_a_model_declines(self, client: Client) -> None:
        chapter = make_active_chapter()
        add_prompts(chapter, 3)
        refusals = ["I can't help with that.", "As an AI language model, I cannot continue this."]
        *_, before, second, last = Event.objects.filter(session=chapter, role=Event.Role.AGENT)
        for event, text in zip((second, last), refusals, strict=True):
            Event.objects.filter(pk=event.pk).update(text=text)
        [line] = all_of(client.get("/").content.decode(), "li", "chapter-line")
        assert before.text in line.words
        Event.objects.filter(session=chapter, role=Event.Role.AGENT).update(text=refusals[0])
        [line] = all_of(client.get("/").content.decode(), "li", "chapter-line")
        assert "help with that" not in line.words

    def test_the_number_of_queries_does_not_grow(
        self, client: Client, django_assert_max_num_queries: Any
    ) -> None:
        for number in range(12):
            add_draft(make_chapter(title=f"Chapter {number}", state=State.ENDED), "Prose.")
        with django_assert_max_num_queries(12):
            client.get("/")


class TestStoryInTheHeader:
    def place(self, client: Client, chapter: Session) -> list[str]:
        html = client.get(address(chapter, "world")).content.decode()
        return [one.words for one in all_of(html, "span", "header-place")]

    def test_a_next_chapter_names_its_story_and_its_number(self, client: Client) -> None:
        first = make_active_chapter(title="The Dark Lamp", prompt_index=3)
        assert self.place(client, first) == []
        second = begin_next_chapter(first.story_id)
        assert self.place(client, second) == ["Chapter 2 of The Dark Lamp"]
        assert self.place(client, first) == ["Chapter 1 of The Dark Lamp"]


class TestNewChapter:
    def test_it_opens_an_empty_tab_1(self, client: Client) -> None:
        response = client.post(reverse("pages:new"))
        chapter = Session.objects.get()
        assert response["Location"] == address(chapter, "world")


class TestOpenChapter:
    @pytest.mark.parametrize(
        ("state", "tab"),
        [
            (State.DRAFT_TAB1, "world"),
            (State.LOCKING, "play"),
            (State.ACTIVE, "play"),
            (State.SUMMARIZING, "play"),
            (State.ENDED, "draft"),
            (State.NARRATING, "draft"),
        ],
    )
    def test_the_state_decides_the_tab(self, client: Client, state: State, tab: str) -> None:
        chapter = make_chapter(state=state)
        assert client.get(address(chapter, "chapter"))["Location"] == address(chapter, tab)


class TestRename:
    def test_a_plain_form_returns_to_the_list(self, client: Client, draft: Session) -> None:
        response = client.post(address(draft, "rename"), {"title": "  New \n title "})
        draft.refresh_from_db()
        assert (response["Location"], draft.title) == ("/", "New title")

    @pytest.mark.parametrize("title", ["", "  ", "x" * 121, "a\x00b"])
    def test_an_impossible_title_is_refused(self, htmx: Client, draft: Session, title: str) -> None:
        response = htmx.post(address(draft, "rename"), {"title": title})
        draft.refresh_from_db()
        assert (response.status_code, draft.title) == (422, "The Dark Lamp")
        assert "HX-Retarget" in response


class TestCopy:
    def test_the_setup_opens_in_a_fresh_chapter(self, client: Client, chapter: Session) -> None:
        response = client.post(address(chapter, "copy"))
        fresh = Session.objects.exclude(pk=chapter.pk).get()
        assert response["Location"] == address(fresh, "world")
        assert fresh.tab1.world_text == chapter.tab1.world_text


class TestDelete:
    def test_it_is_hidden_at_once_and_can_be_brought_back(
        self, client: Client, chapter: Session
    ) -> None:
        html = client.post(address(chapter, "delete"), follow=True).content.decode()
        assert not all_of(html, "li", "chapter-line")
        assert client.get(address(chapter, "play")).status_code == 404
        [undo] = all_of(html, "form", "undo")
        assert "“The Dark Lamp” was deleted." in undo.words
        html = client.post(undo.attributes["action"], follow=True).content.decode()
        assert all_of(html, "li", "chapter-line")
        assert client.get(address(chapter, "play")).status_code == 200
        assert not all_of(html, "form", "undo")

    def test_earlier_deletions_are_behind_a_link(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stories, "LISTED", 2)
        for number in range(3):
            client.post(address(make_chapter(title=f"Tale {number}"), "delete"))
        html = client.get("/").content.decode()
        [deleted] = all_of(html, "details", "deleted-list")
        assert "1 more was deleted before these." in deleted.words
        assert "Tale 0" not in deleted.words
        [earlier] = [one for one in all_of(html, "a") if one.words == "Show earlier deletions"]
        html = client.get("/" + earlier.attributes["href"].partition("#")[0]).content.decode()
        [deleted] = all_of(html, "details", "deleted-list")
        assert "“Tale 0” was deleted." in deleted.words
        assert "Tale 1" not in deleted.words
        assert "more was deleted" not in deleted.words

    def test_a_story_goes_and_comes_back_as_a_whole(self, client: Client) -> None:
        first = make_active_chapter(title="One")
        make_active_chapter(title="Two", story=first.story, place=2)
        story = [first.story_id]
        html = client.post(reverse("pages:delete-story", args=story), follow=True).content.decode()
        assert not all_of(html, "article", "shelf-story")
        [undo] = all_of(html, "form", "undo")
        html = client.post(undo.attributes["action"], follow=True).content.decode()
        assert len(all_of(html, "li", "chapter-line")) == 2


class TestStories:
    def test_a_story_gets_a_title_of_its_own(self, client: Client, chapter: Session) -> None:
        rename = reverse("pages:rename-story", args=[chapter.story_id])
        html = client.post(rename, {"title": "The Coast"}, follow=True).content.decode()
        [story] = all_of(html, "article", "shelf-story")
        assert "The Coast" in story.words
        assert "The Dark Lamp" in story.words

    def test_what_is_put_away_stands_only_among_the_archived(
        self, client: Client, chapter: Session
    ) -> None:
        put_away = reverse("pages:archive-story", args=[chapter.story_id])
        html = client.post(put_away, {"is_archived": "1"}, follow=True).content.decode()
        assert not all_of(html, "article", "shelf-story")
        assert (
            len(all_of(client.get("/?state=archived").content.decode(), "article", "shelf-story"))
            == 1
        )
        client.post(put_away, {"is_archived": "0"})
        assert all_of(client.get("/").content.decode(), "article", "shelf-story")

    def test_a_fork_stands_beside_its_origin_until_it_is_chosen(self, client: Client) -> None:
        chapter = make_active_chapter(title="The Lamp")
        add_prompts(chapter, 2)
        fork = fork_chapter(chapter.pk, 1)
        html = client.get("/").content.decode()
        [story] = all_of(html, "article", "shelf-story")
        assert "1 chapter" in story.words
        assert len(all_of(html, "li", "chapter-line")) == 2
        client.post(address(fork, "choose-chapter"))
        fork.refresh_from_db()
        chapter.refresh_from_db()
        assert (fork.is_chosen, chapter.is_chosen) == (True, False)

    def test_next_chapter_is_one_click_from_a_chapter_in_play(self, client: Client) -> None:
        chapter = make_active_chapter(title="The Lamp")
        html = client.get("/").content.decode()
        [button] = [one for one in all_of(html, "button") if one.words == "Next chapter"]
        [form] = [one for one in button.parents if one.tag == "form"]
        answer = client.post(form.attributes["action"])
        following = Session.objects.get(story=chapter.story_id, place=2)
        assert answer["Location"] == address(following, "world")
        html = client.get("/").content.decode()
        assert "2 chapters" in html
        # The new chapter has to begin before another one follows it.
        assert not [one for one in all_of(html, "button") if one.words == "Next chapter"]

    def titles(self, client: Client, query: str) -> list[str]:
        html = client.get(f"/?{query}").content.decode()
        return [one.words for one in all_of(html, "h2", "story-title")]

    def test_a_search_finds_titles_and_texts_and_says_when_there_is_nothing(
        self, client: Client
    ) -> None:
        make_active_chapter(title="The Dark Lamp")
        told = make_chapter(title="Winter", state=State.ENDED)
        add_draft(told, "Der Überfall begann um acht.")
        played = make_active_chapter(title="Harbour")
        add_turn(played, 1, words="Go on.", reply="I hide the brass compass.")
        assert self.titles(client, "q=lamp") == ["The Dark Lamp"]
        assert self.titles(client, "q=%C3%BCberfall") == ["Winter"]
        assert self.titles(client, "q=COMPASS+brass") == ["Harbour"]
        assert self.titles(client, "q=compass+winter") == []
        html = client.get("/?q=%3Cb%3Enowhere").content.decode()
        assert "No story has “&lt;b&gt;nowhere”" in html.replace("<bdi>", "").replace("</bdi>", "")

    def test_they_are_filtered_and_counted_by_state(self, client: Client) -> None:
        make_chapter(title="Draft")
        make_active_chapter(title="Playing")
        make_chapter(title="Over", state=State.ENDED)
        add_draft(make_chapter(title="Told", state=State.ENDED), "Prose.")
        named = {
            "setting-up": "Draft",
            "in-play": "Playing",
            "ended": "Over",
            "told": "Told",
        }
        for state, title in named.items():
            assert self.titles(client, f"state={state}") == [title]
        choices = all_of(client.get("/").content.decode(), "a", "shelf-choice")
        assert [one.words for one in choices] == [
            *("All 4", "Setting up 1", "In play 1", "Ended 1", "Told 1", "Archived 0")
        ]
