import pytest
from django.test import Client
from markdown_it import MarkdownIt

from memory.models import NarrativeDraft
from sessions.models import Attempt, Session
from sessions.play.attempts import open_prompt
from sessions.play.breaking import pending_attempt
from sessions.play.committing import commit_attempt
from sessions.tests.factories import add_attempt, make_cast
from storyengine.books.book import Book
from storyengine.books.formats import FORMATS, Format
from storyengine.tabs.chapter import downloads
from storyengine.tabs.tests.addresses import address

pytestmark = pytest.mark.django_db


def add_draft(chapter: Session, text: str) -> NarrativeDraft:
    return NarrativeDraft.objects.create(
        session=chapter, target_words=2500, source_snapshot={}, chapter_text=text
    )


class TestTranscript:
    def test_plain_text_with_two_line_breaks_between_entries(
        self, client: Client, chapter: Session
    ) -> None:
        response = client.get(address(chapter, "download-transcript"))
        assert response["Content-Type"] == "text/plain; charset=utf-8"
        assert response["Content-Disposition"] == (
            'attachment; filename="the-dark-lamp-transcript.txt"'
        )
        text = response.content.decode()
        assert text.startswith("1) beat 1\n\nAgent Red: reply 1\n\n2) beat 2\n\n")
        assert "Agent Red: reply 7\n\n-------------\n\n8) beat 8" in text
        assert text.endswith("Agent Orange: reply 8\n")

    def test_markdown_under_the_title(self, client: Client, chapter: Session) -> None:
        response = client.get(address(chapter, "download-transcript"), {"format": "md"})
        assert response["Content-Type"] == "text/markdown; charset=utf-8"
        assert 'filename="the-dark-lamp-transcript.md"' in response["Content-Disposition"]
        text = response.content.decode()
        assert text.startswith("# The Dark Lamp\n\n**1)** beat 1\n\n**Agent Red:** reply 1\n\n")
        assert "**Agent Red:** reply 7\n\n-------------\n\n**8)** beat 8" in text

    def test_markdown_keeps_what_was_said(self, client: Client, chapter: Session) -> None:
        words = "# I <b>say</b> *no*.\n\n1. First\n- second\n---"
        attempt = open_prompt(chapter.pk, actor=1, words="1) <i>", submission_key="key-1").attempt
        commit_attempt(attempt, words)
        response = client.get(address(chapter, "download-transcript"), {"format": "md"})
        text = response.content.decode()
        assert "**9)** 1\\) \\<i>" in text
        assert "\\# I \\<b>say\\</b> *no*.\n\n1\\. First  \n\\- second  \n\\---\n" in text
        assert "<em>no</em>" in MarkdownIt("commonmark").render(text)


class TestDraft:
    @pytest.mark.parametrize("wanted", FORMATS, ids=[one.name for one in FORMATS])
    def test_each_format(self, client: Client, chapter: Session, wanted: Format[Book]) -> None:
        draft = add_draft(chapter, "Night.")
        query = {"format": wanted.suffix}
        response = client.get(address(chapter, "download-draft", draft.pk), query)
        assert response["Content-Type"] == wanted.media_type
        assert f'filename="the-dark-lamp.{wanted.suffix}"' in response["Content-Disposition"]
        is_archive = response.content.startswith(b"PK")
        assert is_archive or b"The Dark Lamp" in response.content
        assert is_archive == (wanted.suffix in ("docx", "epub"))

    def test_a_title_in_any_script_makes_a_file_name(
        self, client: Client, chapter: Session
    ) -> None:
        for title, part in (
            ("Тёмный маяк", "filename*=utf-8''"),
            ('../../etc "x"\\', 'filename="etc-x.txt"'),
            ("!!!", 'filename="chapter.txt"'),
        ):
            Session.objects.filter(pk=chapter.pk).update(title=title)
            draft = NarrativeDraft.objects.first() or add_draft(chapter, "One.")
            response = client.get(address(chapter, "download-draft", draft.pk))
            assert part in response["Content-Disposition"]


class TestEverything:
    def test_it_holds_all_that_a_reset_deletes(self, client: Client, chapter: Session) -> None:
        make_cast(chapter, [1, 2])
        chapter.narrative_agent_definition_text = "Close to Mara."
        chapter.save()
        add_draft(chapter, "The finished prose.")
        unsent = {"words": "Unsent words.", "partial_text": "Half a reply."}
        add_attempt(chapter, status=Attempt.Status.FAILED, actor=1, **unsent)
        text = client.get(address(chapter, "download-everything")).content.decode()
        for part in (
            *("The Dark Lamp", "A harbour town", "Night. The lighthouse", "A ferrywoman."),
            *("A child.", "not in this chapter", "1) beat 1", "Agent Orange: reply 8"),
            *("Unsent words.", "Half a reply.", '"memory_type": "turn_delta"'),
            *("Close to Mara.", "The finished prose."),
        ):
            assert part in text

    def test_a_reply_that_ends_meanwhile_is_in_it(
        self, client: Client, chapter: Session, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = open_prompt(chapter.pk, actor=1, words="The ice cracks.", submission_key="key-1")

        def end_meanwhile(chapter: Session) -> Attempt | None:
            commit_attempt(opened.attempt, "I step back.")
            return pending_attempt(chapter)

        monkeypatch.setattr(downloads, "pending_attempt", end_meanwhile)
        text = client.get(address(chapter, "download-everything")).content.decode()
        assert "9) The ice cracks.\n\nAgent Red: I step back." in text
        assert "9 prompts" in text


def test_words_that_were_set_aside_are_on_the_transcript_page_and_in_the_download(
    client: Client, chapter: Session
) -> None:
    words, begun = "Words <i>nobody</i> answered.", "I <b>begin</b>"
    add_attempt(chapter, words=words, partial_text=begun, status=Attempt.Status.SET_ASIDE)
    page = client.get(address(chapter, "transcript")).content.decode()
    assert "Words &lt;i&gt;nobody&lt;/i&gt; answered." in page
    assert "I &lt;b&gt;begin&lt;/b&gt;" in page
    everything = client.get(address(chapter, "download-everything")).content.decode()
    assert words in everything
    assert begun in everything
