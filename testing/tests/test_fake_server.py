import http.client
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from testing.fake_server import FakeServer, start_fake_server
from testing.http_calls import Answer, Server, call, stream
from testing.model_replies import agent_of
from testing.program import wait_until
from testing.session_data import synthetic_session

SESSION = synthetic_session(21)
# The server records a call at most this many seconds after it has sent the answer.
NOTED_WITHIN = 10.0


@pytest.fixture
def fake() -> Iterator[FakeServer]:
    with start_fake_server(session=SESSION, chapter_words=400) as server:
        yield server


Ask = Callable[..., Answer]


@pytest.fixture
def ask(fake: FakeServer) -> Ask:
    """Return a function that sends messages of an agent to the fake server, and returns the
    answer."""

    def ask(agent: int, *texts: str, **more: Any) -> Answer:
        messages = [{"role": "user", "content": text} for text in texts]
        body = {"model": f"agent-{agent}", "messages": messages, **more}
        return call(Server.at(fake.base_url), "POST", "/chat/completions", body, timeout=10)

    return ask


def content_of(answer: Answer) -> str:
    assert answer.status == 200
    return str(answer.json()["choices"][0]["message"]["content"])


def stream_text(fake: FakeServer, body: dict[str, Any]) -> tuple[str, list[Any]]:
    """Return the text of a streamed reply, and the chunks of the stream."""
    events = stream(Server.at(fake.base_url), "/chat/completions", {**body, "stream": True})
    chunks = [json.loads(event.data) for event in events if event.data != "[DONE]"]
    words = (choice["delta"].get("content", "") for c in chunks for choice in c["choices"])
    return "".join(words), chunks


def test_it_lists_its_models(fake: FakeServer) -> None:
    listed = call(Server.at(fake.base_url), "GET", "/models").json()

    assert [model["id"] for model in listed["data"]] == [f"agent-{n}" for n in range(10)]


def test_a_character_answers_the_beat_that_stands_last(ask: Ask) -> None:
    history = f"{SESSION.pairs[4].beat}\n\n{SESSION.pairs[5].beat}"

    assert content_of(ask(3, history, SESSION.pairs[2].beat)) == SESSION.pairs[2].reply


def test_a_beat_that_was_not_recorded_gets_a_made_up_reply(ask: Ask) -> None:
    assert len(content_of(ask(1, "Something new happens.")).split()) > 20


def test_a_streamed_reply_is_the_plain_one_word_for_word(fake: FakeServer, ask: Ask) -> None:
    messages = [{"role": "user", "content": SESSION.pairs[0].beat}]
    text, _chunks = stream_text(fake, {"model": "agent-1", "messages": messages})

    assert text == content_of(ask(1, SESSION.pairs[0].beat)) == SESSION.pairs[0].reply


@pytest.mark.parametrize("is_asked", [True, False])
def test_a_stream_ends_with_usage_only_when_asked(fake: FakeServer, is_asked: bool) -> None:
    body = {"model": "agent-1", "messages": [], "stream_options": {"include_usage": is_asked}}
    _text, chunks = stream_text(fake, body)

    assert ("usage" in chunks[-1]) is is_asked


def test_the_lock_names_the_agents_of_the_roster(ask: Ask) -> None:
    roster = "## AGENT_ROSTER\n2 agents\n1: red: Mara Vane\n2: orange: Agent Orange"
    payload = json.loads(content_of(ask(0, "the world", roster)))

    assert payload["memory_type"] == "world_chapter_lock"
    assert payload["agents"] == [
        {"slot": 1, "color": "red", "name": "Mara Vane"},
        {"slot": 2, "color": "orange", "name": "Agent Orange"},
    ]


def test_a_delta_tells_the_prompts_of_its_chunk(ask: Ask) -> None:
    chunk = "\n\n".join(f"{n}) Beat {n} here.\n\nMara: I wait." for n in range(8, 15))
    payload = json.loads(content_of(ask(8, "memory so far", chunk)))

    assert payload["range"] == {
        "from_marker": "8",
        "to_marker": "14",
        "prompt_count_in_chunk": 7,
    }
    assert len(payload["major_events"]) == 7


def test_a_chapter_is_continued_and_never_repeated(ask: Ask) -> None:
    transcript = "\n\n".join(pair.beat for pair in SESSION.pairs)
    first = content_of(ask(9, transcript))
    second = content_of(ask(9, transcript, first, "about 150 words more"))

    assert 400 <= len(first.split()) < 550
    assert 150 <= len(second.split()) < 300
    assert not set(first.split("\n\n")) & set(second.split("\n\n"))


def test_an_output_limit_cuts_the_reply_and_says_so(ask: Ask) -> None:
    answer = ask(1, SESSION.pairs[0].beat, max_tokens=5)

    assert len(content_of(answer).split()) == 5
    assert answer.json()["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize(
    ("system", "agent"),
    [
        ('Return {"memory_type": "world_chapter_lock"}', 0),
        ('Return {"memory_type": "turn_delta"}', 8),
        ("Write the chapter as plain prose.", 9),
        ("You are Mara, a character.", 1),
    ],
)
def test_an_agent_is_known_by_its_system_prompt(system: str, agent: int) -> None:
    assert agent_of("some-model", system) == agent


def test_a_model_name_says_which_agent_calls() -> None:
    assert agent_of("agent-5", "turn_delta") == 5


def test_a_fault_hits_the_next_call_of_its_agent_once(fake: FakeServer, ask: Ask) -> None:
    fake.queue_faults("500", agent=8)

    assert ask(1, "A beat.").status == 200
    assert ask(8, "A chunk.").status == 500
    assert ask(8, "A chunk.").status == 200


def test_a_fault_for_agent_1_hits_any_character(fake: FakeServer, ask: Ask) -> None:
    fake.queue_faults("429", agent=1)

    assert ask(4, "A beat.").status == 429


def test_a_cut_stream_breaks_off_half_way(fake: FakeServer) -> None:
    fake.queue_faults("cut")
    messages = [{"role": "user", "content": SESSION.pairs[0].beat}]
    body = {"model": "agent-1", "stream": True, "messages": messages}
    events = [e.data for e in stream(Server.at(fake.base_url), "/chat/completions", body)]
    heard = [json.loads(data)["choices"][0]["delta"]["content"] for data in events]

    assert 0 < len(heard) < len(SESSION.pairs[0].reply.split())
    assert SESSION.pairs[0].reply.startswith("".join(heard))


def test_empty_and_broken_replies_come_on_request(fake: FakeServer, ask: Ask) -> None:
    fake.queue_faults("empty", "badjson")

    assert content_of(ask(8, "A chunk.")) == ""
    with pytest.raises(json.JSONDecodeError):
        json.loads(content_of(ask(8, "A chunk.")))


def test_a_hanging_call_ends_when_the_client_leaves(fake: FakeServer) -> None:
    fake.queue_faults("hang")
    server = Server.at(fake.base_url)
    connection = http.client.HTTPConnection(server.host, server.port, timeout=10)
    body = json.dumps({"model": "agent-1", "messages": []})
    connection.request("POST", "/v1/chat/completions", body)
    connection.close()

    wait_until(lambda: bool(fake.calls), "the call to be noted", seconds=NOTED_WITHIN)
    assert fake.calls[0]["client_left"]


@pytest.mark.parametrize("fault", ["truncated", "malformed"])
def test_the_answer_s_own_json_can_be_broken(fake: FakeServer, ask: Ask, fault: str) -> None:
    fake.queue_faults(fault, fault)
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        content_of(ask(1, "Beat."))
    body = {"model": "agent-1", "messages": [], "stream": True}
    (event,) = stream(Server.at(fake.base_url), "/chat/completions", body)
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(event.data)


def test_control_changes_faults_and_timing_over_http(fake: FakeServer, ask: Ask) -> None:
    control = Server.at(fake.base_url.removesuffix("/v1"))
    wish = {"faults": ["500"], "agent": 9, "tokens_per_second": 5_000, "first_token_ms": 1}
    told = call(control, "POST", "/control", wish).json()

    assert told["faults"] == ["500"]
    assert (fake.timing.first_token_ms, fake.timing.tokens_per_second) == (1, 5_000)
    assert ask(9, "A session.").status == 500
    assert call(control, "GET", "/control").json() == {**told, "faults": [], "calls": 1}


def test_control_refuses_a_fault_that_there_is_not(fake: FakeServer) -> None:
    control = Server.at(fake.base_url.removesuffix("/v1"))

    assert call(control, "POST", "/control", {"faults": ["fire"]}).status == 400


def test_each_call_is_noted_with_its_agent_and_its_prompt(fake: FakeServer, ask: Ask) -> None:
    ask(2, "Who is there?")
    ask(0, "A world.", "A roster.")

    wait_until(lambda: len(fake.calls) == 2, "the calls to be noted", seconds=NOTED_WITHIN)
    first, second = fake.calls
    assert (first["n"], first["agent"], first["prompt"]) == (1, 2, "Who is there?")
    assert (second["n"], second["agent"], second["prompt"]) == (2, 0, "A world.\nA roster.")


def test_what_is_no_chat_completion_is_refused(fake: FakeServer) -> None:
    answer = call(Server.at(fake.base_url), "POST", "/chat/completions", {"model": "agent-1"})

    assert answer.status == 400
