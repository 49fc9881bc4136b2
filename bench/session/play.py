"""Plays a session from setup to draft, and records how long each part took."""

from dataclasses import dataclass, field, replace
from typing import Any

from testing.chapter_client import ChapterClient
from testing.http_calls import RunError, Server, stream
from testing.session_data import Pair, RecordedSession, setup_of

TARGET_WORDS = 5_000
# The name of the model in the measurement's own calls, by which they are told from the program's.
PROBE_MODEL = "bench-probe"
NARRATIVE_STYLE = (
    "Plain, quick prose in the third person and the past tense. Short paragraphs. "
    "Keep what was said as dialogue; leave out dice and rules."
)
CHUNK = 7


@dataclass(frozen=True)
class PromptTiming:
    """The seconds of one prompt: to its end, to the first token of the program, and to the first
    token of the model server alone, which is measured just before."""

    prompt_index: int
    latency: float
    first_token: float | None = None
    model_first_token: float | None = None


@dataclass
class PlayedSession:
    session: RecordedSession
    timings: list[PromptTiming] = field(default_factory=list)
    chapter: dict[str, Any] = field(default_factory=dict)


def play_session(program: Server, model: Server, session: RecordedSession) -> PlayedSession:
    """Play the session. Prompts with even numbers are streamed."""
    played = PlayedSession(session)
    client = ChapterClient(program)
    client.save_setup(setup_of(session))
    client.lock(seconds=60)
    print(f"locked; playing {len(session.pairs)} prompts", flush=True)
    for number, pair in enumerate(session.pairs, 1):
        if number % 2:
            timing = PromptTiming(number, client.prompt(pair.slot, pair.beat))
        else:
            # The time of this first call of the model server is not recorded. While the call runs,
            # the engine finishes its work after the last reply.
            measure_first_token(model)
            own = measure_first_token(model)
            timing = replace(_stream_prompt(client, pair, number), model_first_token=own)
        played.timings.append(timing)
        if number % CHUNK == 0:
            # A GM reads and writes for longer than a summary takes.
            client.wait_for_memory(number, seconds=60)
    print("played; ending and writing the chapter", flush=True)
    client.end(seconds=120)
    client.build_narrative(NARRATIVE_STYLE, TARGET_WORDS, seconds=300)
    played.chapter = client.read()
    return played


def measure_first_token(model: Server) -> float:
    """Return the seconds to the first token when the client calls the model server directly."""
    messages = [{"role": "user", "content": "Is anybody there?"}]
    body = {"model": PROBE_MODEL, "stream": True, "max_tokens": 8, "messages": messages}
    # The whole stream is read, because a connection that is cut would disturb later measurements.
    events = list(stream(model, "/chat/completions", body))
    return next(event.seconds for event in events if '"content"' in event.data)


def _stream_prompt(client: ChapterClient, pair: Pair, number: int) -> PromptTiming:
    times = [event.seconds for event in client.stream_prompt(pair.slot, pair.beat)]
    if not times:
        raise RunError(f"Prompt {number} was answered without a token.")
    return PromptTiming(number, times[-1], times[0])
