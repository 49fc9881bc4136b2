"""Plays the chosen attempts of a chapter in another one, as if nothing else had ever been tried."""

from dataclasses import replace
from typing import Any

from agents.llm.providers.scripted import Script
from agents.models import Job
from chaos.scenarios import Scenario
from sessions.models import Attempt, Session
from sessions.play.played_world import everybody_at
from storyengine.api.tests.calling import address, call
from storyengine.tests.every_mode.playing import (
    Step,
    Try,
    begin,
    chosen_events,
    work_until_none_is_due,
    world_now,
)
from storyengine.tests.every_mode.scripted_model import ScriptedModel


def play_the_chosen(
    scenario: Scenario, model: ScriptedModel, chapter: Session, turns: list[Step]
) -> Session:
    """Return a chapter in which only these turns' chosen attempts were made. Check that it has the
    world and the events of the first one."""
    other = begin(scenario)
    Session.objects.filter(pk=other.pk).update(seed=chapter.seed)
    rows: dict[Any, Attempt] = {}
    for number, step in enumerate(turns, 1):
        one = step.chosen
        if one.scripts:
            _bring_results(one, rows)
            model.enqueue(*_whole(one))
            _play(other, one, _names(chapter), _names(other))
        other.refresh_from_db()
        assert other.prompt_index == number
        rows[one.row.pk] = other.turns.get(number=number).chosen
        for act in step.acts:
            assert call("POST", address(other, "act"), act).status_code == 201
        assert is_told_the_same(other, chosen_events(other, number), chapter, one.events)
    other = Session.objects.get(pk=other.pk)
    assert world_now(other) == turns[-1].world
    return other


def _play(other: Session, one: Try, names: dict[int, str], others: dict[int, str]) -> None:
    if one.then == "alone":
        jobs = other.jobs.filter(kind=Job.Kind.GO_ON).values_list("pk", flat=True)
        work_until_none_is_due(set(jobs).__contains__)
    else:
        body = dict(one.sent)
        if who := body.get("witnesses"):
            numbers = {name: number for number, name in others.items()}
            body["witnesses"] = [numbers[names[number]] for number in who]
        status = 502 if _breaks_off(one) else 201
        answer = call("POST", address(other, "prompt"), body)
        assert answer.status_code == status, answer.content
    if _breaks_off(one):
        assert call("POST", address(other, "keep")).status_code == 201
    for text in one.edits:
        path = address(other, f"turns/{other.prompt_index + 1}/edit")
        assert call("POST", path, {"text": text}).status_code == 201


def _whole(one: Try) -> list[Script]:
    """Return the scripts of the attempt, without the error after the text that the user kept."""
    *steps, last = one.scripts
    return one.scripts if _breaks_off(one) else [*steps, replace(last, error=None)]


def _breaks_off(one: Try) -> bool:
    """Whether the attempt broke off before the first word of its last step, so that only the text
    of earlier steps was kept."""
    return one.then == "keep" and not one.scripts[-1].text


def _bring_results(one: Try, rows: dict[Any, Attempt]) -> None:
    """Finish the late results that the attempt took, for the attempts that stand for those that
    asked for them."""
    taken = one.row.changes.filter(run_id=one.row.run_id, result__isnull=False)
    for job in Job.objects.filter(pk__in=taken.values("result")):
        asker = rows[job.attempt_id]
        same = Job.objects.filter(attempt=asker, kind=job.kind, result_kind=job.result_kind)
        if not same.update(status=Job.Status.DONE, result=job.result):
            Job.objects.create(
                session=asker.session,
                kind=job.kind,
                key=f"{job.result_kind} {asker.pk}",
                attempt=asker,
                from_prompt_index=job.from_prompt_index,
                to_prompt_index=job.to_prompt_index,
                result_kind=job.result_kind,
                result=job.result,
                status=Job.Status.DONE,
            )


def is_told_the_same(
    other: Session, events: list[dict[str, Any]], chapter: Session, expected: list[dict[str, Any]]
) -> bool:
    """Return whether the events of two chapters are the same, whatever their people's numbers."""
    return _plain(other, events) == _plain(chapter, expected)


def _plain(chapter: Session, events: list[dict[str, Any]]) -> list[list[Any]]:
    names = _names(chapter)
    return [
        [
            one["kind"],
            one["role"],
            one["text"],
            one["shown"],
            names.get(one["agent_slot"]),
            sorted(names[number] for number in one["witnesses"]),
        ]
        for one in events
    ]


def _names(chapter: Session) -> dict[int, str]:
    return {one.number: one.name for one in everybody_at(Session.objects.get(pk=chapter.pk))}
