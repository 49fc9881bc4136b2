"""Tests of a short chapter with the embedded model, which the program itself fetches and runs."""

from collections.abc import Iterator

import pytest

from storyengine.tests.running import RunningProgram, run_program
from testing.chapter_client import ChapterClient
from testing.session_data import Setup

pytestmark = [pytest.mark.real_model, pytest.mark.processes]


@pytest.fixture(scope="module")
def program() -> Iterator[RunningProgram]:
    environment = {"STORYENGINE_LLM": "embedded", "STORYENGINE_EMBEDDED_MODEL": "smollm2-135m"}
    with run_program(environment) as running:
        yield running


def test_a_short_chapter_from_lock_to_draft(program: RunningProgram) -> None:
    chapter = ChapterClient(program.server)
    chapter.save_setup(
        Setup(
            world_text="A harbour town at the edge of the ice. Quiet dread.",
            chapter_text="Night. The lighthouse is dark, and the keeper is missing.",
            names={"1": "Mara", "2": "Tom"},
            identities={"1": "A ferrywoman of forty.", "2": "The keeper's brother."},
        )
    )
    # The limit is high, because the program first has to fetch and load the model.
    chapter.lock(seconds=600)
    chapter.prompt(1, "Something knocks on the hull from below.")
    chapter.prompt(2, "Tom hears it too. What does he do?")
    chapter.end(seconds=600)
    chapter.build_narrative("Plain words.", 100, seconds=600)

    document = chapter.read()
    assert document["state"] == "ENDED"
    lock, delta = document["memory_blocks"]
    assert [agent["name"] for agent in lock["json_payload"]["agents"]] == ["Mara", "Tom"]
    assert (delta["from_prompt_index"], delta["to_prompt_index"]) == (1, 2)
    replies = [event["text"] for event in document["events"] if event["role"] == "agent"]
    assert len(replies) == 2
    assert all(reply.strip() for reply in replies)
    assert document["narrative_drafts"][0]["chapter_text"].strip()
