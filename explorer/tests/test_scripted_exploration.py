"""A scripted exploration through the API of the running program, with a scripted model server: the
world is as the chosen attempts say each time, and the secret stays where it belongs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from agents.tests.replies import turn_delta
from storyengine.tests.running import ScriptedProgram, run_scripted_program
from testing.exploration import (
    INN,
    LANDING,
    LINES,
    LOFT,
    MILL,
    SECRET_MARK,
    YOU,
    ExplorationClient,
    knowledge_of,
    known_people,
    place_of,
)
from testing.http_calls import StreamEvent, call, stream
from testing.program import wait_until

pytestmark = [pytest.mark.processes, pytest.mark.each_run]

RECOVERY_SECONDS = 90
QUARREL = "Osk Brandt quarrels with Pia Brandt."
# So long the model server takes for each step that a test wants to be in the middle of.
SLOW_MS = 3_000


@pytest.fixture(scope="module")
def program() -> Iterator[ScriptedProgram]:
    with run_scripted_program() as running:
        yield running


@pytest.fixture
def player(program: ScriptedProgram) -> Iterator[ExplorationClient]:
    yield ExplorationClient(program.server)
    program.model.timing.first_token_ms = 0


def test_the_world_is_as_the_chosen_attempts_say(
    program: ScriptedProgram, player: ExplorationClient
) -> None:
    before = len(program.model.calls)
    # A move away from two people, and somebody hidden whom only the text names.
    assert player.say(LINES[0])["tick"] == 1
    world = player.say(LINES[1])
    assert (world["player_location"], world["tick"]) == (MILL, 7)
    assert "Tove" in known_people(world)
    # Time passes, and then a new place is reached, together with somebody.
    assert player.say(LINES[2])["tick"] == 38
    world = player.say(LINES[3])
    assert (world["player_location"], place_of(world, "Ib")) == (LOFT, LOFT)
    assert place_of(world, "Runa Vass") == MILL
    player.wait_for_jobs(seconds=60)

    # By another name to a known place, and somebody hidden is found by a tool.
    went = player.say(LINES[4])
    assert (went["player_location"], len(went["locations"])) == (LANDING, 4)
    assert "Marta Quill" in known_people(went)
    # What happened out of sight is known to those who were there, and to nobody else.
    assert QUARREL in knowledge_of(went, "Pia Brandt")
    # The wait asked for it, before the loft was known.
    assert place_of(went, "Pia Brandt") == MILL
    assert knowledge_of(went, YOU) == []

    # Another reply takes the move and the meeting back, and the earlier one brings both again.
    answer = player.send("reroll", user_text="I stay where I am.")
    assert answer.status == 201, answer.body
    stayed = player.world()
    assert (stayed["player_location"], stayed["tick"]) == (LOFT, 45)
    assert "Marta Quill" not in known_people(stayed)
    first = player.turn(5)["attempts"][0]["attempt_id"]
    assert player.send("turns/5/choose", attempt_id=first).status == 200
    assert player.world() == went

    # Continue takes a tick, as words do.
    assert player.say("")["tick"] == went["tick"] + 1

    # On return the player is told what happened, and memory writes it down.
    told = {"who": YOU, "what": "Osk and Pia quarrelled.", "source": "told", "from": "Osk Brandt"}
    program.model.replies.instead[8] = [json.dumps(turn_delta(1, 7, learned=[told]))]
    world = player.say(LINES[6])
    assert world["player_location"] == INN
    asked = narrator_calls(program, before)[-1]
    assert "Keeps: The ferry left with two lanterns.\n" in asked
    assert f"Knows: {QUARREL.removesuffix('.')}" in asked
    player.wait_for_memory(7, seconds=60)
    world = player.say(LINES[7])
    assert "Osk and Pia quarrelled." in knowledge_of(world, YOU)

    for number, (place, tick) in enumerate([(INN, 1), (MILL, 7), (MILL, 38), (LOFT, 44)], 1):
        world = player.world(number)
        assert (world["player_location"], world["tick"]) == (place, tick)
    check_secret(program, before)


def test_a_stop_or_a_death_between_two_steps_changes_nothing(
    program: ScriptedProgram, player: ExplorationClient
) -> None:
    begun = player.say(LINES[0])
    words = "I wait and then go. [wait Night; 5] [go the mill; Later] [go the landing; Dawn]"

    # The reply is stopped while its second step is written.
    program.model.timing.first_token_ms = SLOW_MS
    events = prompt(program, player, words, "stopped")
    assert changes_of(next_change(events)) == ["world.time"]
    assert player.send("stop").status == 200
    assert [event.name for event in events][-1] == "error"
    assert player.world() == begun
    program.model.timing.first_token_ms = 0
    retry(program, player, words, "stopped")
    went = player.world()
    assert (went["player_location"], went["tick"]) == (LANDING, begun["tick"] + 1 + 5 + 5 + 5)

    # The web process dies after the first step of another turn.
    program.model.timing.first_token_ms = SLOW_MS
    back = words.replace("landing", "ferry inn")
    events = prompt(program, player, back, "killed")
    next_change(events)
    program.processes.kill("web")
    program.restart("web")
    program.model.timing.first_token_ms = 0
    wait_until(lambda: is_served(program), "the pages", seconds=60)
    wait_until(lambda: pending(player)["status"] == "failed", "it", seconds=RECOVERY_SECONDS)
    assert player.world() == went
    retry(program, player, back, "killed")
    world = player.world()
    assert (world["player_location"], world["tick"]) == (INN, went["tick"] + 1 + 5 + 5 + 5)
    assert player.world(2) == went


def check_secret(program: ScriptedProgram, before: int) -> None:
    """Check that no request has the secret, except those of the narrator while the person who knows
    it is with the player, and those that work out what this person does out of sight."""
    with_secret = [
        one["prompt"] for one in program.model.calls[before:] if SECRET_MARK in one["prompt"]
    ]
    assert with_secret
    for asked in with_secret:
        if "## OUT_OF_SIGHT" in asked:
            assert f"PLACE: {LANDING}\n" in asked
            assert "- Marta Quill: " in asked
            continue
        now = asked.split("## WORLD_NOW", 1)[1]
        assert f"CURRENT LOCATION: {LANDING}" in now
        assert "- Marta Quill: " in now
        assert SECRET_MARK not in asked.split("## WORLD_NOW", 1)[0]


def narrator_calls(program: ScriptedProgram, before: int) -> list[str]:
    return [one["prompt"] for one in program.model.calls[before:] if "WORLD_NOW" in one["prompt"]]


def retry(program: ScriptedProgram, player: ExplorationClient, words: str, key: str) -> None:
    answer = call(
        program.server,
        "POST",
        f"/api/session/{player.session_id}/prompt",
        {"user_text": words},
        headers={"Idempotency-Key": key},
        timeout=60,
    )
    assert answer.status == 201, answer.body


def prompt(
    program: ScriptedProgram, player: ExplorationClient, words: str, key: str
) -> Iterator[StreamEvent]:
    return stream(
        program.server,
        f"/api/session/{player.session_id}/prompt",
        {"user_text": words},
        headers={"Idempotency-Key": key},
        timeout=60,
    )


def next_change(events: Iterator[StreamEvent]) -> StreamEvent:
    return next(event for event in events if event.name == "change")


def changes_of(event: StreamEvent) -> list[str]:
    return [one["kind"] for one in json.loads(event.data)["changes"]]


def pending(player: ExplorationClient) -> dict[str, Any]:
    turn: dict[str, Any] = player.read()["pending_turn"] or {"status": "none"}
    return turn


def is_served(program: ScriptedProgram) -> bool:
    try:
        return call(program.server, "GET", "/healthz", timeout=5).status == 200
    except OSError:
        return False
