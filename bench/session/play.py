"""Plays a session from setup to draft, and records how long each part took."""

from dataclasses import dataclass, field, replace
from typing import Any

from testing.chapter_client import ChapterClient
from testing.http_calls import RunError, Server, stream
from testing.session_data import RecordedSession, setup_of

TARGET_WORDS = 5_000
# The name of the model in the measurement's own calls, by which they are told from the program's.
PROBE_MODEL = "bench-probe"
PROBE_TOKENS = 8
NARRATIVE_STYLE = (
    "Plain, quick prose in the third person and the past tense. Short paragraphs. "
    "Keep what was said as dialogue; leave out dice and rules."
)
CHUNK = 7
# Only at these prompts the run checks that the prompt is stored, because the check disturbs the
# measured time. No multiple of seven is among them, because the times of every seventh prompt are
# compared with the times of the others.
_CHECKED_EVERY, _CHECKED_AT = 14, 4


@dataclass(frozen=True)
class PromptTiming:
    """The times of one prompt, in seconds.

    `first_token` is the time to the first token of the program's streaming API, and
    `model_first_token` the time of the model server alone, which is measured just before.
    """

    prompt_index: int
    latency: float
    first_token: float | None = None
    model_first_token: float | None = None
    is_disturbed: bool = False


@dataclass
class PlayedSession:
    """`stored_first` has an entry for each check: True if the prompt was stored before its first
    token arrived."""

    session: RecordedSession
    timings: list[PromptTiming] = field(default_factory=list)
    stored_first: list[bool] = field(default_factory=list)
    chapter: dict[str, Any] = field(default_factory=dict)


def play_session(program: Server, model: Server, session: RecordedSession) -> PlayedSession:
    """Play the session. Prompts with even numbers are streamed. For all other prompts, the client
    waits for the whole reply."""
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
            timing = replace(_stream_prompt(client, played, number), model_first_token=own)
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
    body = {
        "model": PROBE_MODEL,
        "stream": True,
        "max_tokens": PROBE_TOKENS,
        "messages": [{"role": "user", "content": "Is anybody there?"}],
    }
    # The whole stream is read, because a connection that is cut would disturb later measurements.
    events = list(stream(model, "/chat/completions", body))
    return next(event.seconds for event in events if '"content"' in event.data)


def _stream_prompt(client: ChapterClient, played: PlayedSession, number: int) -> PromptTiming:
    pair = played.session.pairs[number - 1]
    is_checked = number % _CHECKED_EVERY == _CHECKED_AT
    first = last = None
    for event in client.stream_prompt(pair.slot, pair.beat):
        if first is None:
            first = event.seconds
            if is_checked:
                played.stored_first.append(_is_stored(client.read(), number, pair.beat))
        last = event.seconds
    if first is None or last is None:
        raise RunError(f"Prompt {number} was answered without a token.")
    return PromptTiming(number, last, first, is_disturbed=is_checked)


def _is_stored(chapter: dict[str, Any], number: int, beat: str) -> bool:
    """Return whether the prompt is stored, either as the pending turn or, if its reply is complete,
    as an event."""
    pending = chapter["pending_turn"]
    if pending is not None:
        return bool(pending["user_text"] == beat)
    return any(e["prompt_index"] == number and e["text"] == beat for e in chapter["events"])
