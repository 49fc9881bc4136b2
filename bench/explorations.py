"""Measures what an exploration costs: python -m bench.explorations

The fixed exploration of twenty turns (`testing.exploration`) is played with the fake model server.
The calls that decide which place is meant, and those that work out what happens out of sight, have
a target. The calls of the narrator, which the user waits for, and of memory are reported beside.
"""

import sys
from collections import Counter
from collections.abc import Iterator

from bench.harness import SCRIPTED, Figure, measure
from testing.exploration import LINES, ExplorationClient
from testing.fake_server import start_fake_server
from testing.http_calls import RunError
from testing.program import Processes, start_program

MOST_BESIDE_PLAY = 0.6
# The agents as the API names them: agents of the mode by titles, agents of the engine by numbers.
BESIDE_PLAY = (
    *("Who knows the places", "What happened meanwhile", "Talk out of sight"),
    "Report of the talk",
)
NARRATOR, MEMORY = "Narrator of the world", "8"


def main() -> int:
    with start_fake_server() as model:
        environment = {**SCRIPTED, "OPENAI_BASE_URL": model.base_url}
        return measure(play, what="explorations", environment=environment)


def play(processes: Processes) -> Iterator[Figure]:
    """Play the exploration, and count the calls of each agent."""
    client = ExplorationClient(start_program(processes))
    for words in LINES:
        client.say(words)
        client.wait_for_jobs(seconds=120)
    made = client.calls()
    if len(made) >= 100:
        raise RunError("The exploration took more calls than the API lists at once.")
    calls = Counter(
        str(one["agent"] if one["agent_id"] is None else one["agent_id"]) for one in made
    )
    turns = len(LINES)
    beside = sum(calls[agent] for agent in BESIDE_PLAY) / turns
    told = ", ".join(f"{agent}: {calls[agent]}" for agent in BESIDE_PLAY)
    narrator, memory = calls[NARRATOR] / turns, calls[MEMORY] / turns
    name = f"Calls a turn of {turns} turns"
    places = f"{name}: for places and out of sight"
    yield Figure.at_most(places, beside, MOST_BESIDE_PLAY, "{:.2f}", f" ({told})")
    yield Figure(f"{name}: of the narrator", narrator, f"{narrator:.2f}")
    yield Figure(f"{name}: of memory", memory, f"{memory:.2f}")


if __name__ == "__main__":
    sys.exit(main())
