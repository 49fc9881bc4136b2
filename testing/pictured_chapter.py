"""Stores the chapter of the pictures, step by step: python -m testing.pictured_chapter STEP

This is a separate program, because it needs Django's settings. The environment names the program's
data. No model is called. The steps are `play`, `edit` (the latest reply, by hand), `end` (with a
draft) and `follow` (the next chapter of the story). The program prints the chapter's id.
"""

import os
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django

if TYPE_CHECKING:
    from sessions.models import Session

CHAPTER_FILE = Path(__file__).resolve().parent / "pictured_chapter.toml"


def play(told: dict[str, Any]) -> "Session":
    """Store a chapter with the turns of the file, and all its memory but the last block."""
    from agents.flows.beginning.from_starters import begin_starter
    from agents.flows.replies.finishing import commit_reply
    from agents.modes.registry import who_answers
    from sessions.chapter.chapters import save_narrative_agent
    from sessions.play.attempts import open_prompt

    chapter = begin_starter(told["starter"])
    slots = {one.name: one.slot for one in chapter.characters}
    for turn in told["turns"]:
        opened = open_prompt(
            chapter.pk,
            actor=slots[turn["to"]],
            words=turn["prompt"],
            submission_key="",
            answers=who_answers,
        )
        commit_reply(opened.attempt, turn["reply"].strip())
    for delta in told["deltas"][:-1]:
        _remember(chapter, delta)
    save_narrative_agent(chapter.pk, definition_text=told["instructions"].strip(), target_words=500)
    return chapter


def edit(told: dict[str, Any]) -> "Session":
    """Edit the latest reply by hand, so that there are two to choose from."""
    from agents.flows.replies.choosing import edit_reply
    from sessions.models import Session

    chapter = Session.objects.get()
    edit_reply(chapter.pk, chapter.prompt_index, told["edited"].strip())
    return chapter


def follow(told: dict[str, Any]) -> "Session":
    """Begin the next chapter of the story. One of its people is new."""
    from agents.flows.beginning.next_chapter import begin_next
    from sessions.chapter.chapters import SetupChange, rename_chapter, save_setup
    from sessions.models import Session

    chapter = begin_next(Session.objects.get().story_id)
    rename_chapter(chapter.pk, told["next"]["title"])
    change = SetupChange(
        chapter_text=told["next"]["scene"].strip(),
        texts={
            "name": {"3": told["next"]["new"]},
            "pronouns": {"3": told["next"]["pronouns"]},
            "public_text": {"3": told["next"]["public"]},
            "identity_text": {"3": told["next"]["identity"].strip()},
        },
        agent_persons_before={"3": None},
    )
    return save_setup(chapter.pk, change)


def end(told: dict[str, Any]) -> "Session":
    """End the chapter that is there with its last block, and store the draft of the file."""
    from agents.flows.replies.choosing import choose_reply
    from agents.flows.telling.ending import request_end
    from memory.blocks.blocks import counting_blocks
    from memory.prose.drafts import ToldScene, stored_scenes, tell
    from sessions.models import Session
    from sessions.play.latest_turn import latest_turn

    chapter = Session.objects.get()
    # The draft tells the reply as it was played.
    first = latest_turn(chapter).attempts.order_by("committed_at")[0]
    choose_reply(chapter.pk, chapter.prompt_index, first.pk)
    chapter.refresh_from_db()
    _remember(chapter, told["deltas"][-1])
    request_end(chapter.pk)
    scenes = [ToldScene(one["from"], one["to"], one["words"], 0) for one in told["scenes"]]
    telling = tell(scenes, [one["text"].strip() for one in told["scenes"]])
    chapter.narrative_drafts.create(
        attempt=latest_turn(chapter).chosen,
        narrative_agent_definition_text=told["instructions"].strip(),
        target_words=500,
        source_snapshot={
            "max_prompt_index_used": scenes[-1].last,
            "memory_block_ids_used": [str(one.pk) for one in counting_blocks(chapter)],
        },
        chapter_text=telling.text,
        scenes=stored_scenes(telling.scenes),
    )
    return chapter


def _remember(chapter: "Session", delta: dict[str, Any]) -> None:
    from agents.flows.remembering.summarizing import settle_memory
    from memory.blocks.blocks import make_delta, write_deltas

    last = chapter.turns.get(number=delta["to"]).chosen
    assert last is not None, "A committed turn has a chosen attempt."
    one = make_delta(
        last,
        from_prompt_index=delta["from"],
        audience=[one.slot for one in chapter.characters],
        payload=_payload(delta),
    )
    write_deltas([one])
    # The turns asked for a summary, for which no model is to be called.
    chapter.jobs.all().delete()
    settle_memory(chapter.pk)


def _payload(delta: dict[str, Any]) -> dict[str, Any]:
    return {
        "memory_type": "turn_delta",
        "range": {
            "from_marker": f"{delta['from']})",
            "to_marker": f"{delta['to']})",
            "prompt_count_in_chunk": delta["to"] - delta["from"] + 1,
        },
        "location_updates": {
            "where": delta["where"],
            "notable_environment_changes": delta["changes"],
            "at": delta["at"],
        },
        "major_events": delta["events"],
        "character_actions": delta["actions"],
        "state_changes": delta["states"],
        "relationship_shifts": delta["shifts"],
        "items_clues_discovered": delta["finds"],
        "unresolved_threads": delta["threads"],
        "canon_locks": delta["canon"],
        "canon_locks_at": delta["canon_at"],
        "contradictions_or_questions": [],
    }


STEPS = {"play": play, "edit": edit, "end": end, "follow": follow}


def main(step: str) -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    told = tomllib.loads(CHAPTER_FILE.read_text(encoding="utf-8"))
    chapter = STEPS[step](told)
    sys.stdout.write(f"{chapter.pk}\n")


if __name__ == "__main__":
    main(sys.argv[1])
