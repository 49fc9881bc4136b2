"""Tests that modes are found only through agents.modes.registry, and that modes which break each
other are reported."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from agents.flows.replies.dry_run import look_ahead
from agents.flows.replies.turns import keep_reply
from agents.flows.tests.playing import play
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from agents.modes.checks import check_modes
from agents.modes.declaration import AddedLayer, Mode
from agents.modes.registry import compose_for, layers_of, load_modes, mode_of
from agents.modes.world_rules import NO_WORLD
from agents.prompting.declarations import CONTEXT_SUMMARY
from agents.prompting.escaping import without_forgeries
from agents.prompting.fitting import assemble
from agents.prompting.layer_sources import world_text
from agents.prompting.layers import TIERS, Trim
from agents.prompting.sandwich import LayerDeclaration, Subject
from agents.running.job_kinds import JobKind, job_kind
from agents.tests.second_mode import NARRATOR, VOYAGER, added, install
from sessions.exceptions import InvalidInput, WrongState
from sessions.limits import MAX_EVENTS_OF_AN_ATTEMPT
from sessions.models import THOUGHT, Attempt, Session
from sessions.play.events import NewEvent
from sessions.tests.factories import make_active_chapter

Install = Callable[..., None]


async def _works(*_about: object) -> None:
    """Do nothing, because this kind of job has no work."""


def _gives_up(*_about: object) -> None:
    """Do nothing, because the job began nothing that has to be undone."""


JOB = JobKind(run=_works, give_up=_gives_up)


@pytest.fixture
def with_modes(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Install]:
    yield lambda **modes: install(monkeypatch, settings, **modes)
    monkeypatch.undo()
    install(monkeypatch, settings)


def in_a_harbour(**fields: Any) -> Session:
    chapter = make_active_chapter(**fields)
    chapter.tab1.world_text = "A harbour."
    chapter.tab1.save()
    return chapter


def faults() -> list[str | None]:
    return [message.id for message in check_modes()]


def test_a_chapter_of_a_mode_that_is_not_there_is_refused_by_its_name() -> None:
    with pytest.raises(WrongState, match='played as "voyager", a way to play that is not'):
        mode_of(Session(mode="voyager"))


def other(**changes: Any) -> Mode:
    return replace(VOYAGER, **{"name": "other", "agents": (), **changes})


def playing(**changes: Any) -> Mode:
    return other(play=replace(VOYAGER.play, **changes))


def of_agent(**changes: Any) -> Mode:
    return other(agents=(replace(NARRATOR, **changes),))


@pytest.mark.parametrize(
    ("mode", "check_id"),
    [
        (replace(VOYAGER, agents=()), "agents.E002"),
        (of_agent(), "agents.E003"),
        (of_agent(name="memory"), "agents.E003"),
        (of_agent(name="voyager_narrator"), "agents.E004"),
        (of_agent(name="other.memory", agent_id=8), "agents.E004"),
        (other(added_layers=(added(agent="nobody"),)), "agents.E005"),
        (other(added_layers=(added(before="NOTHING"),)), "agents.E005"),
        (other(added_layers=(added("SESSION_STATE"),)), "agents.E005"),
        (other(added_layers=(added("NEAR_BY"), added("NEAR_BY"))), "agents.E005"),
        (other(world=replace(NO_WORLD, change_kinds=frozenset({"moved"}))), "agents.E006"),
        (playing(event_kinds=frozenset({"seen"})), "agents.E006"),
        (playing(job_kinds={"summarize": JOB}), "agents.E006"),
    ],
)
def test_two_modes_that_break_each_other_are_named_with_a_way_out(
    with_modes: Install, mode: Mode, check_id: str
) -> None:
    voyager = replace(
        VOYAGER,
        play=replace(VOYAGER.play, event_kinds=frozenset({"seen"})),
        world=replace(NO_WORLD, change_kinds=frozenset({"moved"})),
    )
    with_modes(voyager=voyager, other=mode)
    messages = check_modes()
    assert {message.id for message in messages} == {check_id}
    assert all(message.hint for message in messages)


def test_the_mode_of_chapters_that_name_none_must_be_there(settings: Settings) -> None:
    settings.MODES = []
    assert faults() == ["agents.E007"]


def test_what_a_mode_declares_is_guarded_and_done(with_modes: Install) -> None:
    jobs = replace(VOYAGER.play, job_kinds={"voyager.map": JOB})
    with_modes(voyager=replace(VOYAGER, elements=frozenset({"vista"}), play=jobs))
    load_modes(("gamemaster", "voyager"))
    assert without_forgeries("<vista>") == "&lt;vista>"
    assert job_kind("voyager.map") is JOB


@pytest.mark.django_db
class TestAddedLayers:
    def test_one_stands_in_the_mode_s_own_chapters_alone(self, with_modes: Install) -> None:
        with_modes(voyager=replace(VOYAGER, added_layers=(added(before="FORMAT"),)))
        chapter = in_a_harbour()
        own = [layer.name for layer in CONTEXT_SUMMARY.layers]
        assert [layer.name for layer in layers_of(CONTEXT_SUMMARY, chapter)] == own
        chapter.mode = "voyager"
        names = [layer.name for layer in layers_of(CONTEXT_SUMMARY, chapter)]
        assert names == [*own[:-1], "WHAT_IS_NEAR", "FORMAT"]
        told = compose_for(CONTEXT_SUMMARY, Subject(chapter), "full")
        [near] = [layer for layer in told if layer.name == "WHAT_IS_NEAR"]
        assert [piece.text for piece in near.pieces] == ["A harbour."]

    def test_one_may_have_a_limit_in_tokens_for_a_tier(self, with_modes: Install) -> None:
        near = LayerDeclaration(
            "WHAT_IS_NEAR", world_text, trim=Trim.DROP, most_tokens={"minimal": 1}, is_kept=True
        )
        layer = AddedLayer("memory", "FORMAT", near)
        with_modes(voyager=replace(VOYAGER, added_layers=(layer,)))
        subject = Subject(in_a_harbour(mode="voyager"))
        for tier in TIERS:
            told = compose_for(CONTEXT_SUMMARY, subject, tier)
            prompt = assemble(told, budget_tokens=100_000, weight_per_token=1)
            [sent] = [one for one in prompt.layers if one.name == "WHAT_IS_NEAR"]
            assert (sent.kept == 0) == (tier == "minimal")


@pytest.mark.django_db
class TestPlay:
    def test_a_mode_s_own_agent_writes(
        self, with_modes: Install, provider: ScriptedProvider, client: Client
    ) -> None:
        committed: list[Attempt] = []
        play_and_follow = replace(VOYAGER.play, after_commit=committed.append)
        with_modes(voyager=replace(VOYAGER, play=play_and_follow))
        chapter = in_a_harbour(mode="voyager")
        assert look_ahead(chapter, agent_slot=1, user_text="I look.").agent == NARRATOR.title
        provider.enqueue("Masts, and gulls.")
        attempt = play(chapter, "I look.", slot=None)
        assert attempt.status == Attempt.Status.COMMITTED, attempt.error
        assert (attempt.actor, attempt.agent) == (None, "voyager.narrator")
        assert committed == [attempt]
        messages = [message.content for message in provider.history[0].messages]
        assert messages == ["## WORLD_TEXT\nA harbour.", "## USER_PROMPT\nI look."]
        call = LLMArtifact.objects.get()
        assert (call.agent, call.agent_id) == ("voyager.narrator", None)
        page = client.get(reverse("pages:usage", args=[chapter.pk])).content.decode()
        assert NARRATOR.title in page


@pytest.mark.django_db
class TestOutcomes:
    @pytest.mark.parametrize(("more", "status"), [(0, "committed"), (1, "failed")])
    def test_an_attempt_comes_to_a_limited_number_of_events(
        self, with_modes: Install, provider: ScriptedProvider, more: int, status: str
    ) -> None:
        def outcome(attempt: Attempt, text: str) -> list[NewEvent]:
            return [NewEvent(text)] * (MAX_EVENTS_OF_AN_ATTEMPT + more)

        with_modes(voyager=replace(VOYAGER, play=replace(VOYAGER.play, outcome=outcome)))
        provider.enqueue("A wave.")
        chapter = make_active_chapter(mode="voyager")
        attempt = play(chapter, "Look.", slot=None)
        assert attempt.status == status
        assert attempt.events.count() == (0 if more else MAX_EVENTS_OF_AN_ATTEMPT + 1)
        if more:
            assert attempt.partial_text == "A wave."
            with pytest.raises(InvalidInput, match="501 events"):
                keep_reply(chapter.pk)
            attempt.refresh_from_db()
            assert attempt.is_broken

    def test_a_thought_that_nobody_has_breaks_the_attempt_and_says_so(
        self, with_modes: Install, provider: ScriptedProvider
    ) -> None:
        def outcome(attempt: Attempt, text: str) -> list[NewEvent]:
            return [NewEvent(text, attempt.actor, kind=THOUGHT)]

        with_modes(voyager=replace(VOYAGER, play=replace(VOYAGER.play, outcome=outcome)))
        provider.enqueue("A wave?")
        chapter = make_active_chapter(mode="voyager")
        attempt = play(chapter, "Look.", slot=None)
        assert (attempt.status, attempt.partial_text) == ("failed", "A wave?")
        assert "a thought that nobody has" in attempt.error
        with pytest.raises(InvalidInput, match="a thought that nobody has"):
            keep_reply(chapter.pk)
