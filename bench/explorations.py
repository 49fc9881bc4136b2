"""Measures what an exploration costs, and how long a long one takes to fold: python -m
bench.explorations

The fixed exploration of twenty turns (`bench.exploration`) is played with the fake model server.
The calls that decide which place is meant, and those that work out what happens out of sight, have
a target. The calls of the narrator, which the user waits for, and of memory are reported beside.
"""

import json
import os
import sys
from collections import Counter
from typing import Any

from bench.exploration import LINES, ExplorationClient
from bench.harness import Figure, report
from testing.fake_server import start_fake_server
from testing.http_calls import RunError
from testing.program import Processes, open_processes, start_program

MOST_BESIDE_PLAY = 0.6
TURNS, MOST_TIMES_READING = 500, 5.0
# The agents as the API names them: agents of the mode by titles, agents of the engine by numbers.
BESIDE_PLAY = (
    *("Who knows the places", "What happened meanwhile", "Talk out of sight"),
    "Report of the talk",
)
NARRATOR, MEMORY = "Narrator of the world", "8"


def main() -> int:
    load_before = os.getloadavg()[0]
    with start_fake_server() as model:
        environment = {
            "STORYENGINE_LLM": "openai",
            "OPENAI_BASE_URL": model.base_url,
            "OPENAI_API_KEY": "unused",
            "STORYENGINE_CONTEXT_WINDOW": "128000",
            "STORYENGINE_MAX_OUTPUT": "16000",
        }
        with open_processes(environment) as processes:
            try:
                figures = [*cost_figures(play(processes)), fold_figure(measure_fold(processes))]
            except (RunError, OSError) as error:
                print(f"{processes.end_of_logs()}\n\n{error}", file=sys.stderr)
                return 1
    return report(figures, session="explorations", load_before=load_before)


def play(processes: Processes) -> Counter[str]:
    """Play the exploration, and return the number of calls of each agent."""
    client = ExplorationClient(start_program(processes))
    for words in LINES:
        client.say(words)
        client.wait_for_jobs(seconds=120)
    calls = client.calls()
    if len(calls) >= 100:
        raise RunError("The exploration took more calls than the API lists at once.")
    return Counter(
        str(one["agent"] if one["agent_id"] is None else one["agent_id"]) for one in calls
    )


def measure_fold(processes: Processes) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.world_fold", str(TURNS)]
    found: dict[str, Any] = json.loads(processes.run("world_fold", command).splitlines()[-1])
    return found


def cost_figures(calls: Counter[str]) -> list[Figure]:
    turns = len(LINES)
    beside = sum(calls[agent] for agent in BESIDE_PLAY) / turns
    told = ", ".join(f"{agent}: {calls[agent]}" for agent in BESIDE_PLAY)
    narrator, memory = calls[NARRATOR] / turns, calls[MEMORY] / turns
    return [
        Figure(
            f"Exploration of {turns} turns: calls for places and out of sight, a turn",
            beside,
            f"{beside:.2f} ({told})",
            f"at most {MOST_BESIDE_PLAY}",
            beside <= MOST_BESIDE_PLAY,
        ),
        Figure(
            f"Exploration of {turns} turns: calls of the narrator, a turn",
            narrator,
            f"{narrator:.2f}",
        ),
        Figure(f"Exploration of {turns} turns: calls of memory, a turn", memory, f"{memory:.2f}"),
    ]


def fold_figure(found: dict[str, Any]) -> Figure:
    times = found["fold"] / found["read"]
    return Figure(
        f"World of {TURNS} turns: cold fold, in times of reading its rows",
        times,
        f"{times:.1f} ({found['fold']:.0f} of {found['read']:.0f} ms, {found['changes']} changes)",
        f"at most {MOST_TIMES_READING:.0f}",
        times <= MOST_TIMES_READING,
    )


if __name__ == "__main__":
    sys.exit(main())
