"""Tests of the migration of a database from before attempts. The migration must keep all data. The
test writes rows as the old program wrote them, and reads these rows with the present program."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

from agents.flows.summarizing import queue_due_summary
from agents.models import Job, LLMArtifact
from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Attempt, Event, Session
from sessions.record import chosen_events
from sessions.transcript import read_transcript
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.tests.test_round_trip import exported

pytestmark = [pytest.mark.weekly, pytest.mark.django_db(transaction=True)]

BEFORE = [
    ("story_sessions", "0003_accepted_calls_and_importing"),
    ("memory", "0001_initial"),
    ("agents", "0011_worker_heartbeats"),
]
BEFORE_AUDIENCES = [
    ("story_sessions", "0005_attempts_only"),
    ("memory", "0003_one_delta_per_stretch"),
    ("agents", "0013_attempts_only"),
]
CAST = [1, 2]
# Maps the status of a trial's job to the status of the attempt that the migration makes of it.
STOPPED = dict.fromkeys(("cancelled", "queued", "running"), "stopped")
OUTCOMES = {"done": "committed", "failed": "failed", **STOPPED}


@dataclass
class OldProgram:
    """The program before there were attempts. Each row that it writes has a time one minute after
    the time of the row before."""

    models: dict[str, Any]
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    # The rows that the old program has written. The checks find them by these names.
    left: dict[str, Any] = field(default_factory=dict)

    def add(self, name: str, **fields: Any) -> Any:
        row = self.models[name].objects.create(**fields)
        if "updated_at" in fields:
            self.models[name].objects.filter(pk=row.pk).update(updated_at=fields["updated_at"])
        return row

    def tick(self) -> datetime:
        self.now += timedelta(minutes=1)
        return self.now

    def set_up(self, **fields: Any) -> Any:
        """Store a chapter with its Tab 1, which every chapter has from its beginning."""
        chapter = self.add("Session", **fields)
        self.add("Tab1Inputs", session=chapter)
        return chapter

    def start(self, **fields: Any) -> Any:
        chapter = self.set_up(selected_agent_slots=CAST, state="ACTIVE", **fields)
        self.remember(chapter, "world_chapter_lock", 0, 0)
        self.job(chapter, "lock", key="lock")
        return chapter

    def say(self, chapter: Any, number: int, role: str, text: str, **fields: Any) -> Any:
        slot = 2 if role == "agent" else None
        about = {"prompt_index": number, "role": role, "agent_slot": slot, "text": text}
        return self.add("Event", session=chapter, **about, **({"created_at": self.tick()} | fields))

    def submit(self, chapter: Any, status: str, *, kind: str = "prompt", **fields: Any) -> Any:
        about = {"kind": kind, "status": status, "agent_slot": 2, "session": chapter}
        times = {name: self.tick() for name in ("submitted_at", "lease_until", "updated_at")}
        given = {"user_text": "Wörter", "submission_key": str(uuid.uuid4()), **fields}
        return self.add("Turn", **about, **times, **given)

    def answer(self, chapter: Any, number: int, reply: str, **fields: Any) -> Any:
        """Store a prompt, a re-roll or a kept broken reply, with its call and its events."""
        turn = self.submit(chapter, "committed", prompt_index=number, **fields)
        if turn.kind == "prompt":
            self.say(chapter, number, "user", turn.user_text, created_at=turn.submitted_at)
        self.say(chapter, number, "agent", reply)
        if not turn.submission_key.startswith("trial-"):
            self.call(chapter, reply, turn=turn)
        self.models["Session"].objects.filter(pk=chapter.pk).update(prompt_index=number)
        return turn

    def call(self, chapter: Any, output: str, **fields: Any) -> Any:
        fields |= {"raw_output_ref": output, "created_at": self.tick()}
        return self.add("LLMArtifact", session=chapter, agent_id=2, **fields)

    def job(self, chapter: Any, kind: str, status: str = "done", **fields: Any) -> Any:
        about = {"kind": kind, "status": status, "created_at": self.tick()}
        given = {"key": str(uuid.uuid4()), "updated_at": self.tick(), **fields}
        return self.add("Job", session=chapter, **about, **given)

    def remember(self, chapter: Any, kind: str, first: int, last: int) -> None:
        stretch = {"from_prompt_index": first, "to_prompt_index": last}
        self.add("MemoryBlock", session=chapter, type=kind, json_payload={}, **stretch)

    def summarize(self, chapter: Any, first: int, last: int, status: str = "done") -> Any:
        stretch = {"from_prompt_index": first, "to_prompt_index": last}
        if status == "done":
            self.remember(chapter, "turn_delta", first, last)
            covered = {"last_summarized_prompt_index": last}
            self.models["Session"].objects.filter(pk=chapter.pk).update(**covered)
        return self.job(chapter, "summarize", status, key=f"{first}-{last}", **stretch)

    def narrate(self, chapter: Any, last: int) -> tuple[Any, Any]:
        build = self.job(chapter, "narrate", inputs={"max_prompt_index": last})
        return build, self.draft(chapter, last)

    def draft(self, chapter: Any, last: int) -> Any:
        snapshot = {"max_prompt_index_used": last, "memory_block_ids_used": []}
        text = {"chapter_text": "Prose", "target_words": 100, "created_at": self.tick()}
        return self.add("NarrativeDraft", session=chapter, source_snapshot=snapshot, **text)

    def try_again(self, chapter: Any, number: int, status: str, reply: str) -> Any:
        """Store a trial of the latest reply to the prompt with this number."""
        replies = self.models["Event"].objects.filter(session=chapter, role="agent")
        changed = {"layer": 1, "layer_name": "WORLD", "text_before": "a", "text": "b"}
        replied = replies.filter(prompt_index=number).latest("created_at")
        inputs = {"call_id": str(uuid.uuid4()), "reply_id": str(replied.pk), **changed}
        about = {"from_prompt_index": number, "to_prompt_index": number, "inputs": inputs}
        text = {"result_text" if status == "done" else "partial_text": reply}
        trial = self.job(chapter, "trial", status, **about, **text)
        self.call(chapter, reply, job=trial)
        return trial


def write_old_database(program: OldProgram) -> None:
    left = program.left
    played = left["played"] = program.start()
    program.answer(played, 1, "One.\n")
    program.answer(played, 2, "Two.")
    of_second: dict[str, Any] = {"kind": "reroll", "prompt_index": 2}
    program.submit(played, "set_aside", partial_text="Half", error="Gone", **of_second)
    program.answer(played, 2, "Two again", kind="reroll")
    program.answer(played, 2, "Two at last", kind="reroll")
    left["kept"] = program.answer(played, 3, "As far as it c")
    left["summary"] = program.summarize(played, 1, 3)
    program.remember(played, "canon_correction", 3, 3)
    program.submit(played, "set_aside", user_text="Never mind")
    program.answer(played, 4, "Four")
    program.submit(played, "set_aside", kind="reroll", prompt_index=4, partial_text="Fo")
    for status in OUTCOMES:
        left[f"{status} trial"] = program.try_again(played, 4, status, f"Four, {status}")
    adopted = left["adopted trial"] = program.try_again(played, 4, "done", "Four, adopted")
    left["adoption"] = program.answer(
        played, 4, "Four, adopted", kind="reroll", submission_key=f"trial-{adopted.pk}"
    )
    program.answer(played, 5, "Five")
    left["end that failed"] = program.summarize(played, 4, 4, "failed")
    left["waiting summary"] = program.summarize(played, 4, 5, "queued")
    running = left["running"] = program.submit(played, "running", user_text="And then")
    program.models["Session"].objects.filter(pk=played.pk).update(turn_in_flight=running.pk)
    program.call(played, "")

    imported = left["imported"] = program.start(prompt_index=2)
    program.say(imported, 0, "system", "Before")
    program.say(imported, 1, "user", "First")
    program.say(imported, 1, "system", "Between")
    left["imported replies"] = [
        program.say(imported, 1, "agent", "One"),
        program.say(imported, 1, "agent", "One again"),
    ]
    program.say(imported, 2, "user", "Second")
    program.say(imported, 2, "agent", "Two")
    left["imported draft"] = program.draft(imported, 1)
    left["imported re-roll"] = program.submit(
        imported, "set_aside", kind="reroll", prompt_index=1, partial_text="On"
    )
    left["re-roll of an import"] = program.answer(
        imported, 2, "Two again", kind="reroll", user_text="Second"
    )
    program.answer(imported, 3, "Three")

    ended = left["ended"] = program.start()
    program.answer(ended, 1, "One")
    program.answer(ended, 2, "Two")
    program.summarize(ended, 1, 2)
    left["builds"] = [program.narrate(ended, 1), program.narrate(ended, 2)]
    left["set up"] = program.set_up()


@dataclass(frozen=True)
class Old:
    """A migrated database. `left` has the rows of the old program by their names, and `rows` has
    the old values of all rows by their models."""

    left: dict[str, Any]
    rows: dict[str, dict[uuid.UUID, dict[str, Any]]]

    def new(self, name: str) -> Session:
        return Session.objects.get(pk=self.left[name].pk)


@pytest.fixture
def old(transactional_db: None) -> Iterator[Old]:
    """Yield the database of an old program after the migration."""
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE)
        models = executor.loader.project_state(BEFORE).apps.get_models()
        program = OldProgram({model.__name__: model for model in models})
        write_old_database(program)
        rows = {name: read(model) for name, model in program.models.items()}
        migrate_to_newest()
        yield Old(program.left, rows)
    finally:
        # The database is restored even if the migration fails, because other tests need it.
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        migrate_to_newest()


def read(model: Any) -> dict[uuid.UUID, dict[str, Any]]:
    return {row.pop(model._meta.pk.attname): row for row in model.objects.values()}


def migrate_to_newest() -> None:
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes())


def chosen_at(chapter: Session, number: int) -> Attempt:
    return chapter.turns.get(number=number).chosen


def test_a_database_from_before_attempts_is_carried_over(old: Old) -> None:
    """All checks look at one migrated database, because each migration takes seconds. The last two
    checks add rows."""
    check_every_word_of_a_story_is_told_by_an_attempt(old)
    check_trials_are_attempts_that_are_chosen_where_they_were_adopted(old)
    check_memory_drafts_jobs_and_calls_name_the_attempts_that_they_are_of(old)
    check_chapters_go_through_files(old)


def check_every_word_of_a_story_is_told_by_an_attempt(old: Old) -> None:
    check_no_event_is_lost_or_changed(old)
    for name in ("played", "imported", "ended", "set up"):
        check_the_latest_reply_to_each_prompt_is_chosen(old, old.new(name))
    check_committed_attempts_hold_words_and_then_a_reply()
    check_submissions_are_attempts_with_what_was_kept_of_them(old)
    check_an_imported_chapter_has_attempts_from_its_first_prompt_on(old)


def check_no_event_is_lost_or_changed(old: Old) -> None:
    new = {event.pk: event for event in Event.objects.all()}
    for pk, row in old.rows["Event"].items():
        event = new.pop(pk)
        # A system event may come before the first prompt. The migration makes it an event of the
        # first prompt.
        row["prompt_index"] = max(row["prompt_index"], 1)
        assert {name: getattr(event, name) for name in row} == row
    added = sorted(event.text for event in new.values())
    assert added == ["First", "Four, done", "Second", *["Wörter"] * 4]


def check_the_latest_reply_to_each_prompt_is_chosen(old: Old, chapter: Session) -> None:
    story: dict[int, list[str]] = {}
    for row in sorted(old.rows["Event"].values(), key=lambda one: one["created_at"]):
        if row["session_id"] == chapter.pk and row["role"] != "system":
            words, *_ = story.get(row["prompt_index"], [row["text"]])
            story[row["prompt_index"]] = [words, row["text"]]
    told: dict[int, list[str]] = {}
    for event in chosen_events(chapter).exclude(role="system"):
        told.setdefault(event.prompt_index, []).append(event.text)
    assert told == story
    numbers = list(chapter.turns.values_list("number", flat=True))
    assert numbers == list(range(1, chapter.prompt_index + 1)) == list(story)


def check_committed_attempts_hold_words_and_then_a_reply() -> None:
    attempts = Attempt.objects.filter(status="committed").prefetch_related("events", "turn")
    # Nine of these attempts are in the played chapter, five in the imported one, and two in the
    # ended one.
    assert len(attempts) == 16
    for attempt in attempts:
        words, reply, *rest = attempt.events.all()
        assert (words.position, words.role, words.text) == (0, "user", attempt.words)
        assert (reply.position, reply.role, reply.agent_slot) == (1, "agent", attempt.actor)
        assert attempt.committed_at is not None
        assert words.created_at < attempt.committed_at <= reply.created_at
        assert [event.role for event in rest] == ["system"] * len(rest)
        assert attempt.turn is not None
        for event in attempt.events.all():
            assert (event.prompt_index, event.witnesses) == (attempt.turn.number, CAST)
            assert event.session_id == attempt.session_id == attempt.turn.session_id
    assert not Event.objects.exclude(attempt__in=attempts).exists()


def check_submissions_are_attempts_with_what_was_kept_of_them(old: Old) -> None:
    renamed = {"agent_slot": "actor", "user_text": "words"}
    adopted, kept = old.left["adoption"].pk, old.left["kept"].pk
    for pk, row in old.rows["Turn"].items():
        attempt = Attempt.objects.get(pk=pk)
        number, kind = row.pop("prompt_index"), row.pop("kind")
        assert {name: getattr(attempt, renamed.get(name, name)) for name in row} == row
        assert (attempt.turn.number if attempt.turn else None) == number
        assert attempt.kind == ("trial" if pk == adopted else kind)
        is_committed = row["status"] == "committed"
        assert attempt.committed_at == (row["updated_at"] if is_committed else None)
    at_second = old.new("played").turns.get(number=2).attempts.filter(status="committed")
    replies = [one.events.get(position=1).text for one in at_second.order_by("committed_at")]
    assert replies == ["Two.", "Two again", "Two at last"]
    made = Attempt.objects.exclude(pk__in=old.rows["Turn"]).exclude(kind="trial")
    assert [attempt.session_id for attempt in made] == [old.left["imported"].pk] * 3
    assert old.new("played").turn_in_flight == old.left["running"].pk
    assert chosen_at(old.new("played"), 3).pk == kept
    assert LLMArtifact.objects.get(attempt=kept).raw_output_ref == "As far as it c"


def check_an_imported_chapter_has_attempts_from_its_first_prompt_on(old: Old) -> None:
    first, second, third = old.new("imported").turns.all()
    early, late = (Event.objects.get(pk=one.pk).attempt for one in old.left["imported replies"])
    assert first.chosen == late
    assert [(one.kind, one.turn) for one in (early, late)] == [("prompt", first), ("reroll", first)]
    texts = [event.text for event in late.events.all()]
    assert texts == ["First", "One again", "Before", "Between"]
    assert Attempt.objects.get(pk=old.left["imported re-roll"].pk).turn == first
    assert second.chosen_id == old.left["re-roll of an import"].pk
    assert [one.kind for one in second.attempts.order_by("committed_at")] == ["prompt", "reroll"]
    assert [one.kind for one in third.attempts.all()] == ["prompt"]


def check_trials_are_attempts_that_are_chosen_where_they_were_adopted(old: Old) -> None:
    turn = old.new("played").turns.get(number=4)
    adopted = turn.chosen
    assert (adopted.pk, adopted.kind) == (old.left["adoption"].pk, "trial")
    assert Event.objects.get(text="Four, adopted").attempt == adopted
    trials = {adopted: ("adopted", "committed")}
    for outcome, status in OUTCOMES.items():
        job = old.left[f"{outcome} trial"]
        trial = Attempt.objects.get(pk=job.pk)
        trials[trial] = (outcome, status)
        events = [event.text for event in trial.events.all()]
        if outcome == "done":
            done_at = old.rows["Job"][job.pk]["updated_at"]
            assert (trial.partial_text, trial.committed_at) == ("", done_at)
            assert events == ["Wörter", "Four, done"]
        else:
            assert (trial.partial_text, trial.committed_at) == (f"Four, {outcome}", None)
            assert events == []
        assert trial.submitted_at == job.created_at
    assert set(Attempt.objects.filter(kind="trial")) == set(trials)
    for trial, (outcome, status) in trials.items():
        inputs = dict(old.left[f"{outcome} trial"].inputs)
        assert trial.source is not None
        assert trial.source.events.get(position=1).pk == uuid.UUID(inputs.pop("reply_id"))
        assert (trial.status, trial.turn, trial.changed_layer) == (status, turn, inputs)
        call = trial.llm_artifacts.get()
        assert (call.raw_output_ref, call.job) == (f"Four, {outcome}", None)


def check_memory_drafts_jobs_and_calls_name_the_attempts_that_they_are_of(old: Old) -> None:
    played, ended, kept = old.new("played"), old.new("ended"), old.left["kept"].pk
    assert MemoryBlock.objects.get(session=played, type="turn_delta").attempt_id == kept
    assert not MemoryBlock.objects.exclude(type="turn_delta").exclude(attempt=None).exists()
    assert set(read(MemoryBlock)) == set(old.rows["MemoryBlock"])
    # In the old program, all characters could read all of memory.
    locks = MemoryBlock.objects.filter(type="world_chapter_lock")
    assert list(locks.filter(session=played).values_list("audience", flat=True)) == [None]
    others = MemoryBlock.objects.exclude(type="world_chapter_lock").values_list("audience")
    assert set(map(repr, others)) == {repr((CAST,))}
    assert not Session.objects.filter(differs_by_reader=True).exists()
    for number, (build, draft) in enumerate(old.left["builds"], start=1):
        written = NarrativeDraft.objects.get(pk=draft.pk)
        assert (written.job_id, written.attempt) == (build.pk, chosen_at(ended, number))
        assert Job.objects.get(pk=build.pk).attempt == written.attempt
    imported = NarrativeDraft.objects.get(pk=old.left["imported draft"].pk)
    assert (imported.job_id, imported.attempt) == (None, chosen_at(old.new("imported"), 1))
    jobs = {pk: row for pk, row in old.rows["Job"].items() if row["kind"] != "trial"}
    assert set(read(Job)) == set(jobs)
    assert not Job.objects.filter(kind="lock").exclude(attempt=None).exists()
    assert Job.objects.get(pk=old.left["summary"].pk).attempt_id == kept
    calls = read(LLMArtifact)
    for pk, row in old.rows["LLMArtifact"].items():
        of_trial = row["job_id"] is not None and row["job_id"] not in jobs
        row["attempt_id"] = row.pop("turn_id")
        # These calls have no stored prompts. test_migration_to_stored_prompts.py tests calls that
        # have some.
        assert row.pop("raw_input_ref") == []
        row |= {"step": 1, "tool_calls": [], "agent": "character", "sent_options": {}}
        if of_trial:
            row["attempt_id"], row["job_id"] = calls[pk]["attempt_id"], None
        assert calls.pop(pk) == row
    assert calls == {}
    check_memory_goes_on_with_the_summary_that_waited(old, played)


def check_memory_goes_on_with_the_summary_that_waited(old: Old, chapter: Session) -> None:
    assert queue_due_summary(chapter)
    jobs = Job.objects.filter(session=chapter, kind=Job.Kind.SUMMARIZE)
    assert {job.pk: job.status for job in jobs} == {
        old.left["summary"].pk: "done",
        old.left["end that failed"].pk: "cancelled",
        old.left["waiting summary"].pk: "queued",
    }
    assert jobs.get(status="queued").attempt == chosen_at(chapter, 5)


@pytest.fixture
def before_audiences(transactional_db: None) -> Iterator[dict[str, Any]]:
    """Yield the models of a program that stored witnesses but no audiences."""
    try:
        executor = MigrationExecutor(connection)
        executor.migrate(BEFORE_AUDIENCES)
        models = executor.loader.project_state(BEFORE_AUDIENCES).apps.get_models()
        yield {model.__name__: model for model in models}
    finally:
        call_command("flush", interactive=False, verbosity=0, inhibit_post_migrate=True)
        migrate_to_newest()


@pytest.mark.parametrize("witnesses", [None, [1]])
def test_chapters_that_have_witnesses_are_told_apart_by_reader(
    before_audiences: dict[str, Any], witnesses: list[int] | None
) -> None:
    chapter = before_audiences["Session"].objects.create(selected_agent_slots=CAST)
    before_audiences["Attempt"].objects.create(
        session=chapter, actor=1, words="x", witnesses=witnesses, lease_until=datetime.now(UTC)
    )
    migrate_to_newest()
    assert Session.objects.get(pk=chapter.pk).differs_by_reader is (witnesses is not None)


def check_chapters_go_through_files(old: Old) -> None:
    for name in ("played", "imported", "ended", "set up"):
        chapter = old.new(name)
        copy = import_chapter(export_chapter(chapter.pk).to_json())
        assert exported(copy) == exported(chapter), name
        assert read_transcript(copy).plain_text == read_transcript(chapter).plain_text, name
