"""Tests that a chapter which is exactly at a limit can be exported and imported, and that the next
step beyond the limit is refused."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from agents.flows.remembering.late_results import finish_with_result
from agents.flows.replies.finishing import commit_reply
from agents.flows.replies.turns import store_prompt
from agents.llm.providers.scripted import ScriptedProvider
from agents.modes.declaration import Memory, Mode, Setup
from agents.modes.fields import save_mode_setup
from agents.modes.registry import find_mode
from agents.modes.world_rules import NO_WORLD
from agents.prompting.tools import ToolArguments
from agents.running.job_kinds import JobKind
from agents.running.jobs import claim
from agents.running.results import ask_for_result
from agents.tests.replies import world_lock
from agents.tests.second_mode import install
from memory.blocks.blocks import write_own_block
from memory.fold.records import Fold
from memory.telling.block_kinds import BlockKind
from memory.tests.factories import add_lock
from sessions import limits
from sessions.exceptions import ChapterError
from sessions.models import PERSON, Attempt, Session, State
from sessions.payloads import MAX_KEYS
from sessions.play.attempts import open_reroll, open_trial
from sessions.play.breaking import fail_attempt
from sessions.play.committing import edit_reply
from sessions.play.events import NewEvent
from sessions.play.played_world import NewChange, store_changes
from sessions.tests.factories import act, make_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("provider")]

# Names as long as the database's columns allow.
CHANGE, EVENT, BLOCK, JOB = "c" * 60, "e" * 40, "b" * 40, "j" * 40


class Carried(ToolArguments):
    held: dict[str, int] = {}
    rest: str = ""


def object_of(characters: int) -> dict[str, Any]:
    """Return an object whose JSON has at most this number of characters, and as many keys as
    possible or allowed."""
    held: dict[str, int] = {}
    size = len(json.dumps({"held": held, "rest": ""}))
    # The object has the keys of its fields too.
    while len(held) < MAX_KEYS - 2 and (size + len(f'"{len(held)}": 1, ')) <= characters:
        size += len(f'"{len(held)}": 1, ')
        held[str(len(held))] = 1
    return {"held": held, "rest": "x" * (characters - size)}


def keyed(count: int) -> dict[str, Any]:
    return {"of": dict.fromkeys(map(str, range(count)), 1)}


def frame_of(attempt: Attempt, text: str) -> list[NewEvent]:
    """Return the events that the text asks for.

    The first number of the text is the number of events. The second number is the length of the
    frame that the last event shows. If there is a third number, the last event instead shows an
    object with this number of keys.
    """
    count, *shows = text.split()
    if not count.isdigit():
        return [NewEvent(text, attempt.actor)]
    frame, *keys = map(int, shows)
    last = NewEvent("The last.", 1, EVENT, keyed(*keys) if keys else {"frame": "f" * frame})
    return [*[NewEvent("So.", 1)] * (int(count) - 1), last]


async def _never_run(*_: object) -> None:
    raise AssertionError


def edges() -> Mode:
    """Make a mode like the Game Master's, with kinds and fields of its own."""
    game_master = find_mode("gamemaster")
    assert game_master is not None
    block_kind = BlockKind("Of its own", lambda *_: Fold(), lambda *_: [])
    return replace(
        game_master,
        name="edges",
        play=replace(
            game_master.play,
            given=Carried,
            outcome=frame_of,
            event_kinds=frozenset({EVENT}),
            job_kinds={JOB: JobKind(_never_run)},
        ),
        world=replace(NO_WORLD, change_kinds=frozenset({CHANGE})),
        memory=Memory(block_kinds={BLOCK: block_kind}),
        setup=Setup(fields=Carried),
    )


@pytest.fixture
def chapter(
    monkeypatch: pytest.MonkeyPatch, settings: Settings, provider: ScriptedProvider
) -> Iterator[Session]:
    install(monkeypatch, settings, edges=edges())
    chapter = make_chapter(mode="edges")
    save_mode_setup(chapter.pk, object_of(limits.MODE_SETUP_CHAR_LIMIT))
    Session.objects.update(state=State.ACTIVE, tab1_locked=True)
    add_lock(chapter, world_lock())
    yield Session.objects.get(pk=chapter.pk)
    monkeypatch.undo()
    install(monkeypatch, settings)


def begin(chapter: Session, words: str = "Go.", **sent: Any) -> Attempt:
    sent = {"actor": 1, "words": words, "submission_key": "", **sent}
    return store_prompt(chapter.pk, **sent).attempt


def play(chapter: Session, text: str = "I go.", **sent: Any) -> Attempt:
    attempt = begin(chapter, **sent)
    assert commit_reply(attempt, text)
    return attempt


def play_again(chapter: Session) -> None:
    reroll = open_reroll(chapter.pk, submission_key="").attempt
    assert commit_reply(reroll, "I go otherwise.")


def change(count: int, characters: int = 9) -> list[NewChange]:
    # In the JSON of a change, everything but the value takes nine characters.
    return [NewChange(CHANGE, {"a": "x" * (characters - 9)}, CHANGE)] * count


def words(chapter: Session, beyond: int) -> None:
    play(chapter, words="w" * (limits.PROMPT_CHAR_LIMIT + beyond))


def given(chapter: Session, beyond: int) -> None:
    play(chapter, given=object_of(limits.GIVEN_CHAR_LIMIT + 20 * beyond))


def events(chapter: Session, beyond: int) -> None:
    play(chapter, f"{limits.MAX_EVENTS_OF_AN_ATTEMPT + beyond} 0")


def shown(chapter: Session, beyond: int) -> None:
    play(chapter, f"1 {limits.PAYLOAD_CHAR_LIMIT - len(json.dumps({'frame': ''})) + beyond}")


def keys_of_shown(chapter: Session, beyond: int) -> None:
    play(chapter, f"1 0 {MAX_KEYS + beyond}")


def attempts(chapter: Session, beyond: int) -> None:
    play(chapter)
    for _ in range(limits.MAX_ATTEMPTS_OF_A_TURN - 1 + beyond):
        play_again(chapter)


def changes(chapter: Session, beyond: int) -> None:
    attempt = begin(chapter)
    most = limits.MAX_CHANGES_OF_AN_ATTEMPT - 2
    assert store_changes(attempt, change(most))
    assert commit_reply(attempt, "I go.")
    # The edit copies the changes of the edited attempt.
    edit_reply(chapter.pk, chapter.turns.count(), "By hand.")
    act(chapter.pk, change(2 + beyond))


def steps(chapter: Session, beyond: int) -> None:
    attempt = begin(chapter)
    assert store_changes(attempt, change(limits.MAX_CHANGES_OF_AN_ATTEMPT))
    if beyond:
        store_changes(attempt, change(beyond))
    assert commit_reply(attempt, "I go.")


def acts(chapter: Session, beyond: int) -> None:
    play(chapter)
    act(chapter.pk, change(limits.MAX_ACTS_OF_A_TURN + beyond))


def payload_of_a_change(chapter: Session, beyond: int) -> None:
    attempt = begin(chapter)
    assert store_changes(attempt, change(1, limits.CHANGE_CHAR_LIMIT + beyond))
    assert commit_reply(attempt, "I go.")


def depth_of_a_change(chapter: Session, beyond: int) -> None:
    nested: dict[str, Any] = {}
    for _ in range(18 + beyond):
        nested = {"a": nested}
    attempt = begin(chapter)
    assert store_changes(attempt, [NewChange(CHANGE, {"a": nested})])
    assert commit_reply(attempt, "I go.")


def keys_of_a_change(chapter: Session, beyond: int) -> None:
    attempt = begin(chapter)
    payload = object_of(limits.CHANGE_CHAR_LIMIT + 20 * beyond)
    assert store_changes(attempt, [NewChange(CHANGE, payload)])
    assert commit_reply(attempt, "I go.")


def people(chapter: Session, beyond: int) -> None:
    attempt = begin(chapter)
    for number in range(limits.MAX_PEOPLE_IN_PLAY + beyond):
        person = {"name": f"{number} {'n' * 56}", "pronouns": "p" * 40, "public_text": "t" * 200}
        if number > 1:
            person = {"name": f"Ann {number}"}
        assert store_changes(attempt, [NewChange(PERSON, person)])
    assert commit_reply(attempt, "I go.")


def edited(chapter: Session, beyond: int) -> None:
    play(chapter)
    edit_reply(chapter.pk, chapter.turns.count(), "r" * (limits.REPLY_CHAR_LIMIT + beyond))


def own_block(chapter: Session, beyond: int) -> None:
    size = limits.PAYLOAD_CHAR_LIMIT - len(json.dumps({"a": ""})) + beyond
    write_own_block(play(chapter), BLOCK, {"a": "x" * size}, [1])


def keys_of_own_block(chapter: Session, beyond: int) -> None:
    write_own_block(play(chapter), BLOCK, keyed(MAX_KEYS + beyond), [1])


AT_A_LIMIT = [
    *(words, given, events, shown, keys_of_shown, attempts, changes, steps, acts),
    *(payload_of_a_change, depth_of_a_change, keys_of_a_change, people, edited),
    *(own_block, keys_of_own_block),
]


def late_results(chapter: Session) -> None:
    """Store a late result that has exactly the largest allowed size, one that is larger, and two
    that are not worked out."""
    for size in (limits.CHANGE_CHAR_LIMIT, limits.CHANGE_CHAR_LIMIT + 1):
        asker = play(chapter)
        job = claim(ask_for_result(asker, JOB, CHANGE).pk)
        assert job is not None
        assert finish_with_result(job, change(1, size)[0].payload)
    ask_for_result(play(chapter), JOB, CHANGE)
    ask_for_result(play(chapter), "undeclared", "undeclared")
    statuses = chapter.jobs.exclude(result_kind="").order_by("to_prompt_index")
    assert list(statuses.values_list("status", flat=True)) == ["done", "void", "queued", "queued"]


def broken(chapter: Session) -> None:
    attempt = begin(chapter, words="w" * limits.PROMPT_CHAR_LIMIT)
    assert store_changes(attempt, change(limits.MAX_CHANGES_OF_AN_ATTEMPT))
    assert fail_attempt(attempt, error="e" * 10_000, partial_text="I g")


def tried(chapter: Session) -> None:
    source = play(chapter)
    layer = {"layer": 1, "layer_name": "SYSTEM", "text_before": "t" * 60_000, "text": "u" * 60_000}
    trial = open_trial(chapter.pk, source=source, changed_layer=layer, submission_key="").attempt
    assert commit_reply(trial, "On trial.")


def comes_back(chapter: Session) -> None:
    """Export the chapter, import the file, and check that the copy's file is the same."""
    file = export_chapter(chapter.pk).to_json()
    copy = import_chapter(file)
    assert json.loads(export_chapter(copy.pk).to_json())["chapter"] == json.loads(file)["chapter"]


@pytest.mark.parametrize("deed", AT_A_LIMIT, ids=lambda deed: deed.__name__)
def test_at_a_limit_it_comes_back_and_beyond_it_is_refused(
    chapter: Session, deed: Callable[[Session, int], None]
) -> None:
    deed(chapter, 0)
    comes_back(chapter)
    # The second call of the function begins with a new turn. So the changes of the first call do
    # not count towards its limit.
    with pytest.raises(ChapterError):
        deed(chapter, 1)
    Attempt.objects.filter(status=Attempt.Status.RUNNING).delete()
    Session.objects.update(turn_in_flight=None)
    comes_back(chapter)


@pytest.mark.weekly
def test_all_of_it_in_one_chapter_comes_back(chapter: Session) -> None:
    for deed in AT_A_LIMIT:
        deed(chapter, 0)
    for other in (late_results, tried, broken):
        other(chapter)
    comes_back(chapter)
