"""What agent 8 tells of a stretch changes what people know, and the next turn takes it."""

import json
from typing import Any

import pytest

from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import turn_delta
from explorer.learned import MOST_LESSONS, is_known
from explorer.tests.playing import begin, calls, move, play, scripted, world_of
from sessions.models import Session
from storyengine.api.tests.calling import RunJobs, address, call

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]


def begin_with(provider: ScriptedProvider, *deltas: dict[str, Any]) -> Session:
    """Begin an exploration in which agent 8 writes these deltas, one after each three prompts."""
    waiting = iter(deltas)

    def answer(request: ModelRequest) -> str:
        is_memory = "turn_delta" in request.messages[0].content
        return json.dumps(turn_delta(1, 3, **next(waiting))) if is_memory else "It goes on."

    provider.fallback = answer
    chapter = begin()
    Session.objects.filter(pk=chapter.pk).update(chunk_size_prompts=3)
    return chapter


def lesson(who: str, what: str, **more: str) -> dict[str, str]:
    return {"who": who, "what": what, "source": "told", "from": "", **more}


def event(text: str) -> dict[str, Any]:
    return {"event": text, "cause": "", "effect": "", "participants": ["Osk"]}


def test_who_was_there_before_the_player_left_has_learned_it(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    told = [lesson("Osk", "Edda is afraid."), lesson("Marta Quill", "Edda is afraid.")]
    chapter = begin_with(scripted, {"learned": told})
    scripted.enqueue(calls("", move("The Mill")), "Flour.")
    play(chapter, "I tell Osk that I am afraid, and go to the mill.")
    play(chapter)
    play(chapter)
    run_jobs()
    play(chapter)

    people = world_of(chapter).people
    assert [one.content for one in people["Osk"].knowledge][1:] == ["Edda is afraid."]
    assert len(people["Marta Quill"].knowledge) == 1


def test_only_who_was_there_at_the_prompt_learns_it_and_little(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    told = [
        # The player left Osk at the second prompt, and came to Runa then.
        {**lesson("Osk", "The rope is cut."), "at": [3]},
        {**lesson("Runa", "The ferryman has a brother."), "at": [1]},
        {**lesson("Runa", "The rope was cut with a knife."), "at": [2]},
        {**lesson("Runa", "A knife cut the rope."), "at": [3]},
        *(
            {**lesson("Runa", f"Secret number {at} is {'abc'[at]}{at}."), "at": [3]}
            for at in (0, 1, 2)
        ),
    ]
    chapter = begin_with(scripted, {"learned": told})
    scripted.enqueue("A fire.", calls("", move("The Mill")), "Flour.")
    for _ in range(3):
        play(chapter)
    run_jobs()
    play(chapter)

    people = world_of(chapter).people
    assert [one.content for one in people["Osk"].came_to_know] == []
    learned = people["Runa"].came_to_know
    assert len(learned) == MOST_LESSONS
    assert learned[0].content == "The rope was cut with a knife."
    assert [one.acquired_at for one in learned] == sorted(one.acquired_at for one in learned)
    assert learned[0].acquired_at < world_of(chapter).tick - 1


def test_what_happened_around_the_player_is_true_of_the_place(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    moved = {"where": "", "notable_environment_changes": ["The lamp is out."], "at": [1]}
    chapter = begin_with(scripted, {"location_updates": moved})
    scripted.enqueue("A fire.", calls("", move("The Mill")), "Flour.")
    for _ in range(3):
        play(chapter)
    run_jobs()
    play(chapter)

    places = world_of(chapter).places
    assert [one.text for one in places["The Ferry Inn"].conditions] == ["The lamp is out."]
    assert not places["The Mill"].conditions


def test_what_another_attempt_told_did_not_happen(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    first, second = ({"major_events": [event(text)]} for text in ("Osk weeps.", "Osk laughs."))
    chapter = begin_with(scripted, first, second)
    for _ in range(3):
        play(chapter)
    run_jobs()
    call("POST", address(chapter, "reroll"), {})
    # The next prompt asks for the memory of the new attempt, and the one after it takes the result.
    play(chapter)
    run_jobs()
    play(chapter)

    happened = [one.description for one in world_of(chapter).happenings]
    assert happened == ["Osk laughs."]


def test_a_name_that_the_story_hides_is_no_source(
    scripted: ScriptedProvider, run_jobs: RunJobs
) -> None:
    told = [lesson("Edda Linn", "The bell rang twice.", **{"from": "the ringer"})]
    chapter = begin_with(scripted, {"learned": told})
    for _ in range(3):
        play(chapter)
    run_jobs()
    play(chapter)

    [known] = world_of(chapter).people["Edda Linn"].knowledge
    assert (known.content, known.source_character) == ("The bell rang twice.", "")


@pytest.mark.parametrize(
    ("known", "is_same"),
    [
        ("The key fits the chest.", False),
        ("The key doesn't fit the chest.", True),
        ("The chest does not fit the key", True),
        ("The lamp is out.", False),
    ],
)
def test_the_same_in_other_words_is_known_and_its_denial_is_not(known: str, is_same: bool) -> None:
    assert is_known("The key does not fit the chest.", [known]) is is_same
