"""Tests that an imported chapter has the changes of the world, the persons who appeared, and the
late results that wait."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from weakref import WeakSet

import pytest
from pytest_django import Settings

from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.modes.declaration import Mode
from agents.modes.registry import find_mode
from agents.modes.world_rules import WorldRules
from agents.running.job_kinds import JobKind, Watch
from agents.running.results import ask_for_result, waiting_results
from agents.tests.replies import world_lock
from agents.tests.second_mode import install
from memory.tests.factories import add_lock
from sessions.models import FIRST_NUMBER_IN_PLAY, PERSON, THOUGHT, Attempt, Change, Session
from sessions.play.attempts import open_prompt, open_reroll, start_keeping
from sessions.play.breaking import broken_attempt, fail_attempt
from sessions.play.chance import chance
from sessions.play.committing import commit_attempt
from sessions.play.events import NewEvent
from sessions.play.played_world import (
    NewChange,
    changes_that_count,
    everybody_at,
    store_changes,
    take_results,
)
from sessions.tests.factories import act, make_active_chapter
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.forking import fork_chapter
from storyengine.exchange.importing import import_chapter

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("_harbour")]

JON = FIRST_NUMBER_IN_PLAY


def dock(chapter: Session) -> tuple[str, ...]:
    if "harbour" not in chapter.tab1.world_text:
        raise ValueError
    return (chapter.characters[0].name, chapter.tab1.world_text)


def sail(world: tuple[str, ...], change: Change) -> tuple[str, ...]:
    """Return the world after this change.

    A world is a list of places. Each "went" change adds a place.
    """
    return (*world, change.payload["to"].strip()) if change.kind == "went" else world


async def _never_run(job: Job, watch: Watch) -> None:
    raise AssertionError


TIDE_JOB = JobKind(_never_run, lambda job, error: None)


WORLD = WorldRules(dock, sail, frozenset({"went", "took", "tide"}))


def harbour(
    world: WorldRules[Any] = WORLD, after_commit: Callable[[Attempt], None] | None = None
) -> Mode:
    """Make a mode like the Game Master's, with a world, and with a kind of job of its own."""
    game_master = find_mode("gamemaster")
    assert game_master is not None
    jobs = {"harbour.tide": TIDE_JOB}
    play = replace(game_master.play, job_kinds=jobs, after_commit=after_commit)
    return replace(game_master, name="harbour", world=world, play=play)


@pytest.fixture
def _harbour(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[None]:
    install(monkeypatch, settings, harbour=harbour())
    yield
    monkeypatch.undo()
    install(monkeypatch, settings)


def result_of(attempt: Attempt, level: int) -> Job:
    assert attempt.turn is not None
    return Job.objects.create(
        session=attempt.session,
        kind="harbour.tide",
        key=f"tide {attempt.pk} {level}",
        status=Job.Status.DONE,
        attempt=attempt,
        from_prompt_index=attempt.turn.number,
        to_prompt_index=attempt.turn.number,
        result_kind="tide",
        result={"level": level},
    )


def begin(chapter: Session, key: str) -> Attempt:
    attempt = open_prompt(chapter.pk, actor=1, words="Go.", submission_key=key).attempt
    take_results(attempt, waiting_results(attempt))
    return attempt


@pytest.fixture
def chapter() -> Session:
    """Return a chapter with a taken and a waiting late result, a person, a thought, an act and a
    broken attempt."""
    chapter = make_active_chapter(mode="harbour")
    add_lock(chapter, world_lock())
    first = begin(chapter, "1")
    store_changes(first, [NewChange(PERSON, {"name": "Old Jon"}, cause="meet", step=1)])
    outcome = [
        NewEvent("Evening.", JON, shown={"frame": "quay"}),
        NewEvent("Him again.", 2, kind=THOUGHT),
    ]
    commit_attempt(first, outcome)
    result_of(first, 1)
    second = begin(chapter, "2")
    commit_attempt(second, "I go.")
    reroll = open_reroll(chapter.pk, submission_key="r").attempt
    take_results(reroll, waiting_results(reroll))
    store_changes(reroll, [NewChange("went", {"to": "quay"}, step=1, after_chars=6)])
    commit_attempt(reroll, "I run.")
    act(chapter.pk, [NewChange("took", {"what": "rope"}, cause="act")])
    result_of(reroll, 2)
    broken = begin(chapter, "3")
    store_changes(broken, [NewChange("went", {"to": "sea"}, step=1)])
    fail_attempt(broken, error="No answer.", partial_text="I swim")
    chapter.refresh_from_db()
    return chapter


def again(chapter: Session) -> Session:
    return import_chapter(export_chapter(chapter.pk).to_json())


def world_of(chapter: Session, **how: Any) -> list[Any]:
    fields = ("kind", "payload", "cause", "step", "after_chars", "created_at")
    return list(changes_that_count(chapter, **how).values_list(*fields))


def test_the_copy_has_the_same_luck(chapter: Session) -> None:
    drawn = [chance(one, 3, "dice").random() for one in (chapter, again(chapter))]
    assert drawn[0] == drawn[1]


def test_a_result_that_waits_does_so_in_the_copy_and_a_taken_one_is_taken(
    chapter: Session,
) -> None:
    copy = again(chapter)
    assert copy.jobs.filter(result_kind="tide").count() == 2
    attempt = open_prompt(copy.pk, actor=1, words="Go.", submission_key="k").attempt
    assert [one.payload for one in waiting_results(attempt)] == [{"level": 2}]


COPIES = pytest.mark.parametrize("copy_of", [again, lambda chapter: fork_chapter(chapter.pk, 2)])


def add_turn(chapter: Session) -> Attempt:
    attempt = open_prompt(chapter.pk, actor=1, words="On.", submission_key="").attempt
    assert commit_attempt(attempt, "I go on.")
    return Attempt.objects.select_related("turn", "session").get(pk=attempt.pk)


@COPIES
@pytest.mark.parametrize("status", ["queued", "running", "failed", "cancelled"])
def test_a_copy_leaves_out_what_is_not_finished_and_asks_for_it_at_the_latest_turn_alone(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    status: str,
    copy_of: Callable[[Session], Session],
) -> None:
    # The broken attempt has taken a late result that shall not be finished in this test. So the
    # attempt is deleted.
    chapter.attempts.filter(status=Attempt.Status.FAILED).delete()
    first, second = (one.chosen for one in chapter.turns.order_by("number"))
    third = add_turn(chapter)
    for asker in (first, second, third):
        result_of(asker, 3)
    Job.objects.filter(result__level__gte=2).update(status=status, result=None)

    def ask(attempt: Attempt) -> None:
        ask_for_result(attempt, "harbour.tide", "tide")

    install(monkeypatch, settings, harbour=harbour(after_commit=ask))
    copy = copy_of(chapter)
    assert set(copy.jobs.values_list("status", flat=True)) == {"done"}
    play(copy)
    asked = copy.jobs.filter(status=Job.Status.QUEUED).order_by("to_prompt_index")
    # The jobs are for the turn that was the latest one in the file, and for the turn that was
    # played in the copy.
    latest = copy.turns.count()
    assert list(asked.values_list("to_prompt_index", flat=True)) == [latest - 1, latest]


@COPIES
def test_a_void_result_is_void_in_the_copy_and_never_asked_for(
    chapter: Session,
    provider: ScriptedProvider,
    monkeypatch: pytest.MonkeyPatch,
    settings: Settings,
    copy_of: Callable[[Session], Session],
) -> None:
    chapter.attempts.filter(status=Attempt.Status.FAILED).delete()
    Job.objects.filter(result__level=2).update(status="void", error="It cannot be taken.")
    copy = copy_of(chapter)
    job = copy.jobs.get(status="void")
    assert (job.result, job.to_prompt_index) == (None, 2)
    assert job.error.startswith("The chapter that this one was copied from had no result")
    # Tab 2 shows only results that became void lately. The copied job has the time of its attempt,
    # which is earlier. So Tab 2 does not show the void result again.
    assert job.attempt is not None
    assert job.updated_at == job.attempt.committed_at
    play(copy)
    assert ask_for_result(job.attempt, "harbour.tide", "tide") == job
    assert set(copy.jobs.values_list("status", flat=True)) == {"done", "void"}


@pytest.mark.parametrize("lacking", [{"kind": "harbour.noise"}, {"result_kind": "quake"}])
def test_a_result_of_a_kind_that_the_mode_lacks_is_left_out_of_the_file(
    chapter: Session, lacking: dict[str, str]
) -> None:
    result_of(chapter.turns.get(number=2).chosen, 4)
    Job.objects.filter(result__level=4).update(status="void", result=None, **lacking)
    assert again(chapter).jobs.count() == chapter.jobs.count() - 1 == 2


def test_a_broken_attempt_can_be_kept_with_its_steps(chapter: Session) -> None:
    copy = again(chapter)
    for one in (copy, chapter):
        kept = start_keeping(broken_attempt(one))
        commit_attempt(kept, kept.partial_text)
    assert [kind for kind, *_ in world_of(copy)] == [kind for kind, *_ in world_of(chapter)]
    assert [kind for kind, *_ in world_of(copy)][-2:] == ["tide", "went"]


def act_of_another(content: Any) -> None:
    first, second = content["turns"][1]["attempts"]
    first["changes"] = second["changes"][-1:]
    content["turns"][1]["chosen"] = 1


def act_first(content: Any) -> None:
    content["turns"][1]["attempts"][1]["changes"].reverse()


def result_twice(content: Any) -> None:
    changes = content["turns"][1]["attempts"][1]["changes"]
    changes.insert(0, changes[0])


def result_beyond(content: Any) -> None:
    content["turns"][1]["attempts"][1]["changes"][0]["result"] = 2


def result_not_finished(content: Any) -> None:
    content["results"][0]["payload"] = None


def result_asked_for_twice(content: Any) -> None:
    content["results"].append(content["results"][0])


def result_of_no_turn(content: Any) -> None:
    content["results"][0]["turn"] = 3


def result_of_no_attempt(content: Any) -> None:
    content["results"][0]["attempt"] = 1


def person_without_name(content: Any) -> None:
    content["turns"][0]["attempts"][0]["changes"][0]["payload"]["name"] = ""


def two_of_one_number(content: Any) -> None:
    [change] = content["turns"][0]["attempts"][0]["changes"]
    other = change | {"payload": change["payload"] | {"name": "Ann"}}
    content["turns"][1]["attempts"][0]["changes"].append(other)


def speaker_who_never_appears(content: Any) -> None:
    content["turns"][0]["attempts"][0]["changes"] = []


def broken_act(content: Any) -> None:
    content["unanswered_attempts"][0]["changes"][0]["is_act"] = True


def undeclared_event(content: Any) -> None:
    content["turns"][0]["attempts"][0]["events"][1]["kind"] = "harbour.bell"


def undeclared_change(content: Any) -> None:
    content["turns"][1]["attempts"][0]["changes"][0]["kind"] = "sank"


def undeclared_broken_change(content: Any) -> None:
    content["unanswered_attempts"][0]["changes"][1]["kind"] = "sank"


def undeclared_result(content: Any) -> None:
    content["results"][1]["kind"] = "sank"


def undeclared_job(content: Any) -> None:
    content["results"][1]["job_kind"] = "summarize"


def thought_that_another_knows(content: Any) -> None:
    content["turns"][0]["attempts"][0]["events"][2]["witnesses"] = [1, 2]


def thought_of_nobody(content: Any) -> None:
    thought = content["turns"][0]["attempts"][0]["events"][2]
    thought.update(role="system", agent_slot=None)


def reply_of_nobody(content: Any) -> None:
    content["turns"][0]["attempts"][0]["events"][1]["agent_slot"] = None


def went_nowhere(content: Any) -> None:
    content["turns"][1]["attempts"][1]["changes"][1]["payload"] = {}


def went_nowhere_unchosen(content: Any) -> None:
    first, second = content["turns"][1]["attempts"]
    first["changes"].append(second["changes"][1] | {"payload": {"to": 7}})


def went_nowhere_and_broke(content: Any) -> None:
    content["unanswered_attempts"][0]["changes"][1]["payload"] = {"to": None}


def no_seed(content: Any) -> None:
    content["seed"] = "luck"


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        (act_of_another, "attempts[0].changes must hold no act"),
        (act_first, "attempts[1].changes must have the acts last"),
        (result_twice, "attempts[1].changes must take entries of results, each once"),
        (result_beyond, "attempts[1].changes must take entries of results, each once"),
        (result_not_finished, "attempts[0].changes must take no entry of results that has no payl"),
        (result_asked_for_twice, "results[2] is asked for a second time by the same attempt"),
        (result_of_no_turn, "results[0].turn must be the number of a turn"),
        (result_of_no_attempt, "results[0].attempt must be the place of one of the attempts"),
        (person_without_name, "changes[0].payload must be a person, with the keys number, name"),
        (two_of_one_number, "changes[1].payload has the number of another person"),
        (speaker_who_never_appears, "witnesses is none of the selected agents"),
        (broken_act, "unanswered_attempts[0].changes must"),
        (no_seed, "chapter.seed"),
        (undeclared_event, "turns[0].attempts[0].events[1].kind is no kind of event that harbour"),
        (undeclared_change, "turns[1].attempts[0].changes[0].kind is no kind of change that harbo"),
        (undeclared_broken_change, "unanswered_attempts[0].changes[1].kind is no kind of change"),
        (undeclared_result, "results[1].kind is no kind of change that harbour declares"),
        (undeclared_job, "results[1].job_kind is no kind of job that harbour declares"),
        (thought_that_another_knows, "turns[0].attempts[0].events[2].witnesses must name the one"),
        (thought_of_nobody, "turns[0].attempts[0].events[2].witnesses must name the one"),
        (reply_of_nobody, "turns[0].attempts[0].events[1].agent_slot is none of the selected"),
        (went_nowhere, "turns[1].attempts[1].changes[1].payload is nothing that harbour can take"),
        (went_nowhere_unchosen, "turns[1].attempts[0].changes[1].payload is nothing that harbour"),
        (went_nowhere_and_broke, "unanswered_attempts[0].changes[1].payload is nothing that har"),
    ],
)
def test_what_does_not_fit_together(
    chapter: Session, spoil: Callable[[Any], None], refusal: str
) -> None:
    file = json.loads(export_chapter(chapter.pk).to_json())
    spoil(file["chapter"])
    with pytest.raises(BadChapterFile) as caught:
        import_chapter(json.dumps(file).encode())
    assert refusal in str(caught.value)
    assert Session.everything.count() == 1


def test_a_result_that_waits_and_that_the_world_cannot_take_is_void_in_the_copy(
    chapter: Session, provider: ScriptedProvider
) -> None:
    file = json.loads(export_chapter(chapter.pk).to_json())
    file["chapter"]["results"][1]["kind"] = "went"
    copy = import_chapter(json.dumps(file).encode())
    assert play(copy).status == Attempt.Status.COMMITTED
    job = copy.jobs.get(status=Job.Status.VOID)
    assert (job.result_kind, job.error) == (
        *("went", "The way to play cannot take it into its world (KeyError)."),
    )


def test_a_setup_with_which_no_world_begins(chapter: Session) -> None:
    file = json.loads(export_chapter(chapter.pk).to_json())
    file["chapter"]["tab1"]["world_text"] = "A desert."
    with pytest.raises(BadChapterFile, match="mode_content is nothing that harbour can begin"):
        import_chapter(json.dumps(file).encode())
    assert Session.everything.count() == 1


def test_who_appeared_takes_part_in_a_copy_though_nobody_thought_anything() -> None:
    chapter = make_active_chapter()
    add_lock(chapter, world_lock())
    attempt = open_prompt(chapter.pk, actor=1, words="Who comes?", submission_key="1").attempt
    assert store_changes(attempt, [NewChange(PERSON, {"name": "Old Jon"})])
    assert commit_attempt(attempt, "Old Jon comes.")

    copy = import_chapter(export_chapter(chapter.pk).to_json())

    assert "Old Jon" in [one.name for one in everybody_at(copy)]


def test_who_came_in_an_attempt_that_is_set_aside_does_not_go_along(chapter: Session) -> None:
    broken = chapter.attempts.get(status=Attempt.Status.FAILED)
    retry = begin(chapter, "3")
    assert store_changes(retry, [NewChange(PERSON, {"name": "Lost"})])
    fail_attempt(retry, error="No answer.", partial_text="I swim on")
    assert broken.pk == retry.pk
    following = begin(chapter, "4")
    # Ann gets the number that the person of the broken attempt had.
    assert store_changes(following, [NewChange(PERSON, {"name": "Ann"})])
    assert commit_attempt(following, "I go on.")
    chapter.refresh_from_db()
    copy = again(chapter)
    assert everybody_at(copy) == everybody_at(chapter)
    assert copy.character(JON + 1).name == "Ann"
    set_aside = copy.attempts.get(status=Attempt.Status.SET_ASIDE)
    assert (set_aside.partial_text, set_aside.changes.count()) == ("I swim on", 0)


def test_the_check_of_a_file_keeps_no_world_of_earlier_turns(
    chapter: Session, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    class World:
        """A world. `alive` contains the worlds that Python has not deleted yet."""

    alive: WeakSet[World] = WeakSet()
    most: list[int] = []

    def made(*_about: object) -> World:
        world = World()
        alive.add(world)
        most.append(len(alive))
        return world

    for number in range(20):
        attempt = begin(chapter, f"on {number}")
        store_changes(attempt, [NewChange("went", {"to": f"place {number}"})] * 3)
        commit_attempt(attempt, "I go on.")
    content = export_chapter(chapter.pk).to_json()
    worlds = WorldRules(made, made, WORLD.change_kinds)
    install(monkeypatch, settings, harbour=harbour(worlds))
    import_chapter(content)
    assert len(most) > 60
    assert max(most) <= 5
