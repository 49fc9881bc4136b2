"""When one stretch has several sets of witnesses, the change that was played last holds for all
readers, also in a fork and in an imported copy.

A stand-in for agent 8 reports the state of a door as the last prompt in its transcript tells it.
"""

import json
import re
from collections.abc import Callable

import pytest

from agents.flows.tests.playing import play
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from agents.tests.replies import answer_in_form, turn_delta, world_lock
from memory.blocks.blocks import counting_deltas
from memory.fold.folding import fold_chapter
from memory.tests.factories import add_lock
from sessions.models import Session
from sessions.tests.factories import make_active_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = pytest.mark.django_db

RunJobs = Callable[[], int]
# The prompts that tell of the door, each with its witnesses and the state that it tells.
Door = dict[int, tuple[list[int], str]]
THREE_PAIRS: Door = {2: ([1, 2], "shut"), 6: ([2, 3], "open"), 7: ([1, 3], "barred")}
WIDE_AND_NARROW: Door = {2: ([1, 2], "shut"), 7: ([1, 2, 3], "barred")}
NARROW_AND_WIDE: Door = {2: ([1, 2, 3], "shut"), 7: ([1, 2], "barred")}


def tell_the_door(request: ModelRequest) -> str:
    if "turn_delta" not in request.messages[0].content:
        return answer_in_form(request)
    sent = " ".join(message.content for message in request.messages)
    told = re.findall(r"Now the door is (\w+)", sent)
    changes = [{"key": "door", "before": "", "after": state, "notes": ""} for state in told[-1:]]
    return json.dumps(turn_delta(state_changes=changes, major_events=[], unresolved_threads=[]))


@pytest.fixture
def chapter(provider: ScriptedProvider) -> Session:
    provider.fallback = tell_the_door
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    return chapter


def play_a_stretch(chapter: Session, door: Door) -> None:
    for number in range(1, 8):
        witnesses, state = door.get(number, ([1, 2, 3], ""))
        words = f"Now the door is {state}." if state else "It rains."
        play(chapter, words, slot=witnesses[0], witnesses=witnesses)


def door_as_told_to(chapter: Session, slot: int | None) -> str:
    return fold_chapter(chapter, readers=None if slot is None else [slot]).values["door"].value


def told_in_order(chapter: Session) -> list[int | None]:
    return [delta.told_until for delta in counting_deltas(chapter)]


@pytest.mark.parametrize(
    ("door", "ends"),
    [(THREE_PAIRS, [2, 5, 6, 7]), (WIDE_AND_NARROW, [2, 7]), (NARROW_AND_WIDE, [6, 7])],
    ids=["three pairs", "the wide one is later", "the narrow one is later"],
)
def test_each_reader_is_told_the_state_that_was_played_last(
    chapter: Session, run_jobs: RunJobs, door: Door, ends: list[int]
) -> None:
    play_a_stretch(chapter, door)
    run_jobs()
    fork = fork_chapter(chapter.pk, 7)
    copy = import_chapter(export_chapter(chapter.pk).to_json())
    for one in (chapter, fork, copy):
        for slot in (None, 1, 2, 3):
            known = [state for who, state in door.values() if slot is None or slot in who]
            assert door_as_told_to(one, slot) == known[-1], slot
        assert told_in_order(one) == ends
