"""The narrator's request has the headings of the specification in its order, in two parts.

`narrators_prompt.txt` shows the requests of a turn with two steps. Of the instructions it has only
the first lines, so that other wording does not change it; the world stands there word for word.
STORYENGINE_TEST_WRITE=1 writes the file anew, for somebody to read what has changed.
"""

import os
import re
from pathlib import Path

import pytest

from agents.llm.providers.base import ModelRequest
from agents.llm.providers.scripted import ScriptedProvider
from explorer.tests.playing import TAVERN, begin, calls, discover, move, play, scripted, wait

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["scripted"]

FIXTURE = Path(__file__).with_name("narrators_prompt.txt")


# What the user writes for the narrator beside the scenario.
GUIDED = {
    **TAVERN,
    "style": "In the present tense.",
    "note": {"text": "Slow dread.", "depth": 1},
    "talk": [{"name": "Osk", "text": "Two cups. I counted two cups."}],
    "lorebook": {
        "entries": [
            {"content": "The river takes one a year.", "constant": True},
            {"content": "The bell is cracked.", "keywords": "bell, landing"},
            {"content": "Nobody mills at night.", "keywords": "mill"},
        ]
    },
}


def test_the_request_is_the_fixture(scripted: ScriptedProvider) -> None:
    chapter = begin(GUIDED)
    scripted.enqueue(
        "The fire smokes. Osk counts his cups.",
        calls("You take your coat.", move("the landing", "Osk", time="Late evening")),
        calls("", discover("Marta Quill", "A tall woman at the bell."), wait("Midnight", 30)),
        "She does not turn round.",
    )
    play(chapter, "I warm my hands.")
    play(chapter, "I go down to the landing with Osk.")

    shown = "\n\n".join(
        f"=== step {step} ===\n{shown_of(request)}"
        for step, request in enumerate(scripted.history[1:], 1)
    )
    if os.environ.get("STORYENGINE_TEST_WRITE") == "1":
        FIXTURE.write_text(shown + "\n", encoding="utf-8")
    assert shown == FIXTURE.read_text(encoding="utf-8").rstrip("\n")


def test_of_each_person_all_of_the_beginning_is_told_with_goals_and_ties(
    scripted: ScriptedProvider,
) -> None:
    osk = {
        "name": "Osk",
        "pronouns": "he/him",
        "goals": "To be paid.",
        "knowledge": [{"content": f"Fact {number}."} for number in range(5)],
        "relationships": [
            {"name": "Edda Linn", "description": "He fears her."},
            {"name": "Runa", "description": "He owes her."},
        ],
    }
    chapter = begin({**TAVERN, "people": [osk, {"name": "Runa", "location": "The Mill"}]})
    scripted.enqueue("A fire.")
    play(chapter)

    told = scripted.history[0].messages[1].content
    assert (
        "- Osk (he/him)\n    Wants: To be paid.\n"
        "    Keeps: Fact 0; Fact 1; Fact 2; Fact 3; Fact 4.\n"
        "    To Edda Linn: He fears her.\n"
    ) in told
    # Runa is not here.
    assert "He owes her" not in told

    scripted.enqueue("He looks away.")
    play(chapter, "I ask Osk what Runa is to him.")
    assert "    To Runa: He owes her.\n" in scripted.history[-1].messages[1].content


def shown_of(request: ModelRequest) -> str:
    """Return the messages of a request, with only the first lines of the instructions."""
    return "\n\n".join(
        f"--- {message.role} ---\n"
        + (first_lines(message.content) if message.role == "system" else message.content.strip())
        + "".join(f"\n[calls {one.name} {one.arguments}]" for one in message.tool_calls)
        for message in request.messages
    )


def first_lines(text: str) -> str:
    return "\n".join(part.split("\n")[0] for part in re.split(r"\n\n+", text))
