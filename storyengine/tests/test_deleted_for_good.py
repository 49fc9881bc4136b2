"""Tests that no row keeps a word of a story that was deleted a day ago."""

import json
from datetime import timedelta

import pytest
from django.apps import apps
from django.core.serializers import serialize
from django.utils import timezone

from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from memory.models import NarrativeDraft
from memory.prose.drafts import choose_draft
from memory.prose.editing.working_copies import save_working_copy
from sessions.chapter.stories import hide_story, remove_deleted
from sessions.models import Attempt, Session
from sessions.tests.factories import add_attempt
from storyengine.tests.whole_chapter import make_whole_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.servers]

MARKED = "Zarathustra lamp"
# The tables that have texts of a chapter. All others have numbers, or names of models and servers.
TABLES = {
    *("Story", "Session", "Tab1Inputs", "CastMember", "Attempt", "Event", "EventTerms"),
    *("MemoryBlock", "NarrativeDraft", "WorkingCopy", "Job", "LLMArtifact", "PromptText"),
}


def tables_with(words: str) -> set[str]:
    return {
        model.__name__
        for model in apps.get_models()
        for row in json.loads(serialize("json", model._base_manager.all()))
        if words.lower() in json.dumps(row).lower()
    }


def make_story() -> Session:
    """Make a chapter that has its words in every table, also in unfinished work."""
    chapter = make_whole_chapter(MARKED).chapter
    draft = NarrativeDraft.objects.get(session=chapter)
    save_working_copy(chapter.pk, draft.pk, MARKED)
    choose_draft(chapter.pk, draft.pk)
    add_attempt(chapter, words=MARKED, partial_text=MARKED, status=Attempt.Status.SET_ASIDE)
    Job.objects.create(
        session=chapter, kind=Job.Kind.NARRATE, key="build", partial_text=MARKED, error=MARKED
    )
    chapter.story.title = MARKED
    chapter.story.save()
    return chapter


def test_after_a_day_no_table_has_a_word_of_it(provider: ScriptedProvider) -> None:
    provider.enqueue(MARKED, MARKED)
    chapter, kept = make_story(), make_whole_chapter("The other story").chapter
    found = tables_with("Zarathustra")
    assert found >= TABLES - {"EventTerms"}
    hide_story(chapter.story_id)
    assert tables_with("Zarathustra") == found
    Session.everything.filter(pk=chapter.pk).update(deleted_at=timezone.now() - timedelta(hours=26))
    assert remove_deleted() == 1
    assert tables_with("zarathustr") == set()
    # The count of the calls of a minute has no texts, and is deleted after five minutes.
    assert tables_with(str(chapter.pk)) <= {"AdmittedCall"}
    assert tables_with("The other story") >= {"Session", "Event", "MemoryBlock", "PromptText"}
    assert Session.objects.get() == kept
