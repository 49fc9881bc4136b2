"""Where memory has no room for all of it, a long chapter's prompt gets the passages that it is
about, from the record and from memory, and everything else gives way a little for them."""

from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.replies.dry_run import DryRun, look_ahead
from memory.canon.corrections import write_correction
from memory.recall.recalling import recall
from memory.tests.factories import add_delta, add_lock
from sessions.models import Session
from sessions.tests.factories import add_turn, make_active_chapter
from testing.session_data import beat_text, reply_text

pytestmark = pytest.mark.django_db

NAME = "RECALLED_PASSAGES"
TURNS, CHUNK, TOLD_AT = 300, 7, 20
# The fact of turn 20, in the words of the record and of memory.
SAID = "The widow hides the emerald brooch under the third step."
EVENT = "The widow hid the emerald brooch beneath a stair"
ASKED = "Ilse asks who has seen the widow's emerald brooch."


def delta(first: int, last: int) -> dict[str, Any]:
    """Return a delta with an event, a deed and a find of this stretch."""
    events = [{"event": beat_text(number)[:150]} for number in range(first, last + 1)]
    done = {"agent_slot": 1, "name": "Mara", "did": f"counted the ropes of stretch {last}"}
    return {
        "major_events": events,
        "character_actions": [{**done, "intent": f"to sell them at fair {last}", "result": ""}],
        "items_clues_discovered": [{"thing": f"a ledger of year {last}", "who_found": ["Tom"]}],
    }


@pytest.fixture
def chapter() -> Session:
    """A chapter of 300 turns with deltas. Only Mara and Tom witnessed turn 20."""
    chapter = make_active_chapter(
        agent_names={"1": "Mara", "2": "Tom", "3": "Ilse"}, chunk_size_prompts=CHUNK
    )
    add_lock(chapter, {"world": {"key_lore": ["The salt tower was built by monks."]}})
    for number in range(1, TURNS + 1):
        is_secret = number == TOLD_AT
        words = f"{SAID} {beat_text(number)[:200]}" if is_secret else beat_text(number)
        add_turn(
            chapter,
            number,
            words=words,
            reply=reply_text(number, 60),
            actor=number % 2 + 1,
            witnesses=[1, 2] if is_secret else None,
        )
    for first in range(1, TURNS - CHUNK, CHUNK):
        last = first + CHUNK - 1
        told = delta(first, last)
        if first <= TOLD_AT <= last:
            secret = {"major_events": [{"event": EVENT}]}
            add_delta(chapter, first, last, secret, audience=[1, 2])
        add_delta(chapter, first, last, told, audience=[1, 2, 3])
    chapter.prompt_index, chapter.last_summarized_prompt_index = TURNS, last
    chapter.save()
    return chapter


UNKNOWN, SMALL_MODEL = "a-model-nobody-knows", "llama-3.2-3b-instruct"
SMALL = {"medium": (UNKNOWN, 8_192, 16_000), "minimal": (SMALL_MODEL, 6_000, 16_000)}
# In a large window, memory gives way only if it has more tokens than it may have.
ALL = {**SMALL, "full": (UNKNOWN, 128_000, 3_000)}


@pytest.fixture(params=ALL.values(), ids=list(ALL))
def _window(request: pytest.FixtureRequest, settings: Settings) -> None:
    settings.MODEL, settings.CONTEXT_WINDOW, settings.MEMORY_TOKENS = request.param
    settings.LLM, settings.MODEL_BY_AGENT = "openai", {}
    settings.MAX_OUTPUT = 1_000


def ask(chapter: Session, words: str, slot: int) -> DryRun:
    run = look_ahead(chapter, agent_slot=slot, user_text=words)
    assert not run.too_long
    assert run.tokens <= run.budget_tokens
    return run


def texts(run: DryRun) -> dict[str, str]:
    return {layer.name: layer.text for layer in run.layers}


def all_but(run: DryRun, *names: str) -> str:
    return "\n".join(text for name, text in texts(run).items() if name not in names)


@pytest.mark.usefixtures("_window")
class TestAFactThatGaveWay:
    def test_stands_in_the_prompt_that_names_it_for_those_who_know_it(
        self, chapter: Session
    ) -> None:
        for slot in (1, 2):
            run = ask(chapter, ASKED, slot)
            assert SAID not in all_but(run, NAME)
            assert EVENT not in all_but(run, NAME)
            recalled = texts(run)[NAME]
            assert SAID in recalled
            assert f"<prompts>15-21</prompts>\n<told>{EVENT}</told>" in recalled

    def test_stands_in_no_prompt_of_somebody_who_did_not_witness_it(self, chapter: Session) -> None:
        run = ask(chapter, ASKED, 3)
        assert "brooch" not in all_but(run, "USER_PROMPT")

    def test_is_not_told_once_the_game_master_withdrew_it(self, chapter: Session) -> None:
        write_correction(chapter.pk, replaces=EVENT, canon="", reason="")
        chapter.refresh_from_db()
        assert f"<told>{EVENT}" not in all_but(ask(chapter, ASKED, 1))


@pytest.mark.usefixtures("_window")
class TestTheRoom:
    def test_tells_nothing_that_memory_or_the_context_tells(self, chapter: Session) -> None:
        run = ask(chapter, f"{ASKED} Ledger of year 294, {beat_text(300)}", 1)
        others = all_but(run, NAME, "USER_PROMPT").splitlines()
        told = [line for line in texts(run)[NAME].splitlines() if line.startswith(("<told", "<f"))]
        assert told
        assert not set(told) & set(others)


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def counted(reader: Any, question: str, k: int, **more: int) -> Any:
        asked.append(question)
        return recall(reader, question, k, **more)

    monkeypatch.setattr("agents.prompting.recalled.recall", counted)
    return asked


@pytest.mark.usefixtures("_window")
class TestNothingIsSearched:
    @pytest.mark.parametrize("_window", SMALL.values(), ids=list(SMALL), indirect=True)
    def test_but_it_is_once_the_window_has_no_room_for_a_turn(self, searches: list[str]) -> None:
        chapter = make_active_chapter(chunk_size_prompts=CHUNK)
        add_lock(chapter, {})
        for number in range(1, 7):
            words = f"{SAID} {number} {beat_text(number)}"
            add_turn(chapter, number, words=words, reply=reply_text(number, 700))
        chapter.prompt_index = 6
        chapter.save()
        ask(chapter, ASKED, 1)
        assert searches == [ASKED]
