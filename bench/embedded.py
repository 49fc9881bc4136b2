"""Plays a chapter with three characters on the embedded model, and measures how soon each reply
begins."""

import json
import time
from itertools import cycle, islice

from bench.embedded_figures import embedded_figures
from bench.figure import Figure
from sessions.words import count_words
from testing.chapter_client import ChapterClient
from testing.http_calls import Server
from testing.session_data import Setup, beat_text

PROMPTS = 21
# The pause between a reply and the next prompt, in seconds. A person would take longer, because
# even a quick reader needs twenty seconds for a reply of eighty words.
PAUSE_SECONDS = 10.0
# The longest wait for a lock, in seconds. In the first run, this time includes fetching the model's
# weights.
LOCK_SECONDS = 1_800.0
SETUP = Setup(
    world_text=(
        "A harbour town that lives on salt, ferries and debts. The sea gives back what it took, "
        "never when it is wanted. Tone: wry, uneasy, humane. There is no magic but the tide's."
    ),
    chapter_text=(
        "Evening. The pilot's boat has come home without the pilot. Three neighbours go along the "
        "quay to find out why before the water reaches the upper steps."
    ),
    names={"1": "Calla", "2": "Berrin", "3": "Edda"},
    identities={
        "1": "Calla mends nets and hears everything. Quick, kind, bad at keeping still.",
        "2": "Berrin was a customs man. Dry, careful, ashamed of something he signed.",
        "3": "Edda keeps the ferry house. Blunt, brave, afraid of deep water; tells nobody.",
    },
)


def play_embedded(program: Server, pause_seconds: float) -> list[Figure]:
    """Play as a GM would who reads and types for `pause_seconds` before each prompt."""
    client = ChapterClient(program)
    client.save_setup(SETUP)
    print("waiting for the embedded model and its first memory", flush=True)
    client.lock(seconds=LOCK_SECONDS)
    first_tokens: list[float] = []
    words: list[int] = []
    for number, slot in enumerate(islice(cycle((1, 2, 3)), PROMPTS)):
        time.sleep(pause_seconds)
        text = f"{beat_text(number)} Answer in about eighty words."
        events = list(client.stream_prompt(slot, text))
        first_tokens.append(events[0].seconds)
        turn = json.loads(events[-1].data)
        words.append(count_words(turn["events"][-1]["text"]))
        print(f"prompt {number + 1}: {first_tokens[-1]:.2f} s, {words[-1]} words", flush=True)
    return embedded_figures(first_tokens, words, client.calls(), pause_seconds=pause_seconds)
