"""An agent with a small form is asked by it while its model is the embedded one."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest

from agents.calling.records.call_records import calls_of
from agents.flows.replies.composing import answer_to, compose_start
from agents.flows.replies.dry_run import look_ahead
from agents.flows.tests.playing import play
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.embedded_provider import EmbeddedProvider
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.registry import find_agent
from agents.prompting.agent import Agent
from agents.prompting.layer_sources import own_pieces
from agents.prompting.layers import Piece
from agents.prompting.small_forms import SmallForm, examples, plain
from sessions.models import Attempt, Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

WORDS = "A lamp goes out."
GRAMMAR = 'root ::= "I " [a-z ]+ "."'


def faults(attempt: Attempt, text: str) -> list[str]:
    return [] if "lamp" in text else ["names no lamp"]


SMALL = SmallForm(
    (
        plain("SYSTEM", lambda _subject, _tier: [Piece("You tell a story.")], "system"),
        *examples(("A door opens.", "I shut it.")),
        plain("USER_PROMPT", own_pieces("USER_PROMPT")),
        plain("YOUR_REPLY", lambda _subject, _tier: [Piece("What do you do?")]),
    ),
    output_tokens=50,
    grammar=lambda _attempt: GRAMMAR,
    faults=faults,
    most_tries=3,
)


@pytest.fixture(autouse=True)
def _with_small_form(provider: ScriptedProvider) -> Iterator[None]:
    def find(name: str, number: int | None = None) -> Agent | None:
        agent = find_agent(name, number)
        return agent and replace(agent, small=SMALL, has_reply_rules=False)

    provider.name = "embedded"
    with patch("agents.modes.registry.find_agent", find):
        yield


@pytest.fixture
def chapter() -> Session:
    return make_active_chapter(agent_names={"1": "Mara Venn"})


def sent(request: ModelRequest) -> list[tuple[str, str]]:
    return [(one.role, one.content) for one in request.messages]


MESSAGES = [
    ("system", "You tell a story."),
    ("user", "A door opens."),
    ("assistant", "I shut it."),
    ("user", f"{WORDS}\n\nWhat do you do?"),
]


def test_the_request_is_sent_recorded_and_foretold_as_the_form_says(
    chapter: Session, provider: ScriptedProvider
) -> None:
    foretold = look_ahead(chapter, agent_slot=1, user_text=WORDS)
    assert foretold.tier == "small"
    assert foretold.output_limit == 50
    provider.enqueue("I light the lamp.")
    play(chapter, WORDS)
    (request,) = provider.history
    assert sent(request) == MESSAGES
    assert [one.name for one in foretold.layers] == [
        layer["name"] for layer in calls_of(chapter).get().layers
    ]
    assert (request.max_output_tokens, request.temperature, request.top_p) == (50, 0.7, 0.95)
    body = EmbeddedProvider(base_url="http://localhost:1/v1").extra_fields(request)
    assert body["grammar"] == GRAMMAR
    assert (body["top_k"], body["dry_allowed_length"], body["repeat_penalty"]) == (60, 4, 1.0)


def test_reading_ahead_reads_the_beginning_of_the_same_request(chapter: Session) -> None:
    start = compose_start(chapter, 1)
    assert [one.text for one in start] == [
        "You tell a story.",
        "A door opens.",
        "I shut it.",
        "What do you do?",
    ]
    assert answer_to(chapter, 1).agent == "character"
