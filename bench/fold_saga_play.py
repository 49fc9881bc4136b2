"""Plays a story of several chapters for the fold test, and asks for the exact prompts.

Run alone (python -m bench.fold_saga_play CHAPTERS TURNS SUBJECTS SEED), it prints what was counted
as JSON. Django has to be set up before the rest of this module is imported.
"""

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING

import django

from bench.fold_saga import Chapter, SagaWriter

if TYPE_CHECKING:
    from bench.fold_play import Player, Tallies
    from sessions.models import Session

CAST = 4
# How many turns a fork is played on before the story goes by it, and how far before the end it is
# forked.
_TURNS_OF_A_FORK, _FORKED_BEFORE_END = 5, 6


def play_saga(chapters: int, turns: int, *, subjects: int, seed: int) -> "Tallies":
    """Play chapters of so many turns. Every second one is forked near its end, and the story goes
    by the fork. All characters are asked before the first prompt of each chapter and at its end."""
    from bench.fold_play import LARGE, Player, set_window

    set_window(LARGE)
    player = Player(SagaWriter(seed, subjects=subjects, cast=CAST), stage="chapter 1")
    for number in range(1, chapters + 1):
        is_forked = bool(number % 2)
        with player:
            if number > 1:
                _lock(player)
                player.ask_all()
                player.ask_world()
            _play(player, turns)
            if not is_forked:
                _end(player)
        if is_forked:
            player = _go_by_a_fork(player, turns - _FORKED_BEFORE_END, seed + number)
        if number < chapters:
            assert isinstance(player.writer, SagaWriter)
            writer = player.writer.next_chapter()
            chapter = _begin(player.chapter, writer.story)
            tallies, stage = player.tallies, f"chapter {number + 1}"
            player = Player(writer, chapter.pk, tallies=tallies, stage=stage)
    return player.tallies


def _play(player: "Player", turns: int) -> None:
    from bench.fold_play import LARGE

    for number in range(1, turns + 1):
        player.play()
        if number > turns // 2 and not number % (turns // 4):
            player.correct()
        player.ask(number % CAST + 1, LARGE)
        player.ask_world()
    player.remember()
    player.ask_all()
    player.ask_world()


def _go_by_a_fork(player: "Player", number: int, seed: int) -> "Player":
    from sessions.stories import choose_chapter

    stage = player.stage
    fork = player.fork(number, seed)
    with fork:
        fork.stage = f"{stage}, the fork"
        for _ in range(_TURNS_OF_A_FORK):
            fork.play()
        fork.remember()
        fork.ask_all()
        _end(fork)
    choose_chapter(fork.chapter.pk)
    return fork


def _end(player: "Player") -> None:
    """End the chapter, so that memory has its last turns too."""
    from agents.flows.ending import request_end

    request_end(player.chapter.pk, accept_calls=True)
    player.remember()
    assert player.chapter.state == "ENDED", player.chapter.state


def _begin(before: "Session", story: Chapter) -> "Session":
    """Begin the next chapter, in which each person has another slot, or takes no part."""
    from agents.flows.next_chapter import begin_next
    from sessions.models import CastMember, Session

    chapter = begin_next(before.story_id)
    assert chapter.follows_id == before.pk, "The next chapter comes from the one that is chosen."
    origins = {one.name: one for one in before.members.all()}
    chapter.members.all().delete()
    slots = {name: slot for slot, name in enumerate(story.people, 1)}
    CastMember.objects.bulk_create(
        CastMember(
            session=chapter,
            slot=slots.get(name),
            is_selected=name in slots,
            name=name,
            identity_text=f"{name} is stubborn.",
            origin=origins.get(name),
        )
        for name in sorted({*origins, *slots})
    )
    return Session.objects.get(pk=chapter.pk)


def _lock(player: "Player") -> None:
    from agents.flows.locking import request_lock

    request_lock(player.chapter.pk)
    player.remember()


def main(chapters: int, turns: int, subjects: int, seed: int) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    tallies = play_saga(chapters, turns, subjects=subjects, seed=seed)
    counted = [
        {"stage": stage, "window": window, **asdict(tally)}
        for (stage, window), tally in tallies.items()
    ]
    print(json.dumps(counted))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
