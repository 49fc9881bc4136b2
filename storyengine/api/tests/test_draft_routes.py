import pytest

from agents.flows.telling.tests.narrations import make_ended_chapter, words
from agents.llm.providers.failures.call_errors import ProviderRefused
from agents.llm.providers.scripted import ScriptedProvider
from memory.models import NarrativeDraft
from memory.prose.tests.told_chapters import TOLD, add_draft, make_told_chapter
from sessions.models import Session
from storyengine.api.tests.calling import RunJobs, address, assert_problem, call, waited
from storyengine.books.book import Book, book_of
from storyengine.books.formats import FORMATS, Format
from testing.refusals import DRAFTS_UNCHANGED

pytestmark = pytest.mark.django_db


class TestText:
    @pytest.mark.parametrize("wanted", FORMATS, ids=[one.name for one in FORMATS])
    def test_the_newest_draft_in_each_format(self, wanted: Format[Book]) -> None:
        chapter = make_told_chapter()
        add_draft(chapter, "Before.")
        newest = add_draft(chapter, "Night.")
        response = call("GET", address(chapter, f"text?format={wanted.suffix}"))
        assert response.status_code == 200
        assert response.headers["Content-Type"] == wanted.media_type
        assert response.headers["Content-Disposition"].endswith(f'.{wanted.suffix}"')
        if wanted.media_type.startswith("text/"):
            book = book_of(chapter.pk, chapter.title, [newest])
            assert response.content == wanted.write(book)


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


@pytest.fixture
def built(provider: ScriptedProvider, run_jobs: RunJobs) -> Session:
    chapter = make_ended_chapter()
    provider.enqueue(words(200))
    call("POST", address(chapter, "build-narrative"))
    run_jobs()
    return chapter


def scene_of(chapter: Session, number: int = 1) -> str:
    draft = chapter.narrative_drafts.order_by("created_at").first()
    assert draft is not None
    return f"drafts/{draft.pk}/scenes/{number}"


class TestRebuild:
    def test_it_adds_a_draft(
        self, built: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(words(200, "again"))
        response = call("POST", address(built, f"{scene_of(built)}/rebuild"))
        assert (response.status_code, response.json()["state"]) == (202, "NARRATING")
        run_jobs()
        drafts = call("GET", address(built)).json()["narrative_drafts"]
        assert [one["chapter_text"] for one in drafts] == [words(200), words(200, "again")]

    def test_a_client_that_waits_gets_the_draft_or_what_went_wrong(
        self, built: Session, provider: ScriptedProvider, run_jobs: RunJobs
    ) -> None:
        provider.enqueue(words(200, "again"), ProviderRefused("No."))
        response = waited(built, f"{scene_of(built)}/rebuild", run_jobs)
        assert (response.status_code, len(response.json()["narrative_drafts"])) == (200, 2)
        failed = waited(built, f"{scene_of(built)}/rebuild", run_jobs)
        problem = assert_problem(failed, 502, "job-failed")
        assert DRAFTS_UNCHANGED in problem["job"]["error"]
        assert NarrativeDraft.objects.count() == 2
