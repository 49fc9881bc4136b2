"""Functions that make chapters for the narrator, and prose of a known length."""

from collections.abc import Callable, Sequence

from agents.flows.telling.narrating import request_build
from agents.llm.providers.base import Message
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta
from memory.tests.factories import add_delta
from sessions.models import Session, State
from sessions.tests.factories import add_prompts, add_thoughts, make_active_chapter


def make_ended_chapter(prompts: int = 14, target_words: int = 200, **fields: object) -> Session:
    chapter = make_active_chapter(state=State.ENDED, target_words=target_words, **fields)
    add_prompts(chapter, prompts)
    for first in range(1, prompts + 1, 7):
        last = min(first + 6, prompts)
        add_delta(chapter, first, last, turn_delta(first, last))
    Session.objects.update(last_summarized_prompt_index=prompts)
    chapter.refresh_from_db()
    return chapter


def make_thoughtful_chapter(target_words: int = 1_200) -> Session:
    """Make an ended chapter of 22 turns, of which turns 8 to 14 and turn 22 have only thoughts."""
    chapter = make_active_chapter(target_words=target_words)
    add_prompts(chapter, 7)
    add_thoughts(chapter, 7)
    add_prompts(chapter, 7)
    add_thoughts(chapter, 1)
    for first, last in ((1, 7), (8, 14), (15, 21), (22, 22)):
        add_delta(chapter, first, last, turn_delta(first, last))
    Session.objects.update(last_summarized_prompt_index=22, state=State.ENDED)
    chapter.refresh_from_db()
    return chapter


def make_chapter_of_two_scenes() -> Session:
    """Make a chapter that a small window divides into two scenes of seven prompts each."""
    return make_ended_chapter(14, target_words=1_200)


def prompt_of_second_scene(
    provider: ScriptedProvider, run_jobs: Callable[[], int]
) -> Sequence[Message]:
    """Return the messages of the request for the second scene.

    The first scene is one paragraph of 700 words. The calling test has to set a small window.
    """
    chapter = make_chapter_of_two_scenes()
    provider.enqueue(words(700, "first"), words(700, "second"))
    request_build(chapter.pk)
    run_jobs()
    return provider.history[1].messages


def words(count: int, stem: str = "word") -> str:
    return " ".join(f"{stem}{number}" for number in range(count)) + "."
