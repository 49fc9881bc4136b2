"""A chapter with something to show on each of its pages, and the addresses of these pages."""

from dataclasses import dataclass

from agents.flows.replies.tests.trying import try_again
from agents.flows.tests.playing import play
from agents.tests.replies import turn_delta, world_lock
from memory.models import NarrativeDraft
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from storyengine.tabs.chapter.now_pages import text_key
from storyengine.tests.url_map import addresses

SNAPSHOT = {"max_prompt_index_used": 1, "memory_block_ids_used": []}


@dataclass(frozen=True)
class WholeChapter:
    chapter: Session
    addresses: list[str]


def make_whole_chapter(words: str) -> WholeChapter:
    """Make a chapter with a reply, memory, a trial and a draft.

    All its texts contain `words`, whether a person or a model wrote them. The caller must have set
    a scripted provider.
    """
    names = {"1": words}
    chapter = make_active_chapter(title=words, agent_names=names, shows_all_replies=True)
    chapter.tab1.world_text = chapter.tab1.chapter_text = words
    chapter.tab1.save()
    attempt = play(chapter, words)
    question = f"Is it {words}?"
    lock = world_lock([words])
    delta = turn_delta(1, 1, contradictions_or_questions=[question], canon_locks=[words])
    add_lock(chapter, lock)
    add_delta(chapter, 1, 1, delta)
    draft = NarrativeDraft.objects.create(
        session=chapter, target_words=100, source_snapshot=SNAPSHOT, chapter_text=words
    )
    trial = try_again(chapter, words, number=2)
    known = {
        "session_id": str(chapter.pk),
        "attempt_id": str(attempt.pk),
        "number": "1",
        "draft_id": str(draft.pk),
        "trial_id": str(trial.pk),
        "key": text_key(question),
    }
    return WholeChapter(chapter, addresses(known))
