"""Functions that fill every table of the database, read all rows, and drop all tables."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from django.apps import apps
from django.db import connection

from agents.flows.telling.tests.narrations import make_ended_chapter
from agents.models import (
    AdmittedCall,
    EmbeddedServer,
    Job,
    LLMArtifact,
    ModelChoice,
    ModelServer,
    ModelTest,
    PromptText,
    ProviderConsent,
    RefusedField,
    ReportedWindow,
    SpendingCap,
    SpentTokens,
    SweepLease,
    TokenCalibration,
)
from agents.running.heartbeats import store_heartbeat
from memory.models import DraftChoice, NarrativeDraft, WorkingCopy
from sessions.models import Attempt, Change, Session
from sessions.tests.factories import add_attempt

# A text that is hard to copy. A backup that stored rows as lines of text could spoil each part of
# it.
HARD_TEXT = (
    "tab\there\nline\r\nquote ' \" back\\slash \\. \\N é 雪 🕯 \u202e right-to-left \x7f end "
)

Rows = dict[str, list[tuple[Any, ...]]]


def fill_every_table() -> Session:
    chapter = make_ended_chapter(title=HARD_TEXT[:60])
    chapter.tab1.world_text = HARD_TEXT * 100
    chapter.tab1.save()
    attempt = add_attempt(
        chapter,
        words=HARD_TEXT,
        given={HARD_TEXT: [None, 0.5]},
        witnesses=[1, 2],
        status=Attempt.Status.FAILED,
        lease_until=datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC),
    )
    Change.objects.create(
        session=chapter,
        attempt=attempt,
        run_id=attempt.run_id,
        position=0,
        kind="lit",
        payload={HARD_TEXT: [None, 0.5]},
    )
    job = Job.objects.create(
        session=chapter, kind=Job.Kind.NARRATE, key="1", inputs={HARD_TEXT: [1, None, 2.5]}
    )
    LLMArtifact.objects.create(
        session=chapter,
        attempt=attempt,
        job=job,
        agent_id=9,
        provider="p",
        model="m",
        error=HARD_TEXT,
    )
    draft = NarrativeDraft.objects.create(
        session=chapter, target_words=5, source_snapshot={"to": 14}, chapter_text=HARD_TEXT * 500
    )
    WorkingCopy.objects.create(draft=draft, session=chapter, text=HARD_TEXT)
    DraftChoice.objects.create(session=chapter, draft=draft)
    ProviderConsent.objects.create(host="example.org")
    server = ModelServer.objects.create(
        name="mine", title=HARD_TEXT[:60], address="http://[::1]/v1"
    )
    ModelChoice.objects.create(agent="AGENT_9", server=server, model=HARD_TEXT[:60])
    SpendingCap.objects.create(dollars=Decimal("2.50"), tokens=2**40)
    ModelTest.objects.create(session=chapter, agent="memory", provider="p", model="m")
    EmbeddedServer.objects.create(phase=EmbeddedServer.Phase.READY, model="m", bytes_total=2**40)
    TokenCalibration.objects.create(model="m", agent="character", weight=0.1 + 0.2, tokens=1e-300)
    # The heartbeat says that the worker has stopped, because a backup is not restored while a
    # worker runs.
    store_heartbeat("worker", {HARD_TEXT: 2**53}, is_last=True)
    AdmittedCall.objects.create(session_id=chapter.pk)
    SpentTokens.objects.create(session=chapter, provider="p", model="m", read=2**40)
    SweepLease.objects.create(holder=HARD_TEXT, lease_until=chapter.created_at)
    ReportedWindow.objects.create(server="http://localhost", model=HARD_TEXT)
    RefusedField.objects.create(server="http://localhost", model=HARD_TEXT, field="stop")
    PromptText.objects.create(session=chapter, hash="0" * 20, text=HARD_TEXT)
    return chapter


def empty_models() -> list[str]:
    """Return the names of the engine's models that have no row. A comparison of rows would prove
    nothing about such a model."""
    return [
        model.__name__
        for label in ("story_sessions", "memory", "agents")
        for model in apps.get_app_config(label).get_models()
        if not model.objects.exists()  # type: ignore[attr-defined]
    ]


def all_rows() -> Rows:
    with connection.cursor() as cursor:
        rows: Rows = {}
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")  # noqa: S608
            columns = tuple(column[0] for column in cursor.description)
            rows[table] = [columns, *sorted(cursor.fetchall(), key=repr)]
    return rows


def all_rules() -> dict[str, list[str]]:
    """Return the keys, indexes and checks of every table. A restored database must have all of
    them."""
    with connection.cursor() as cursor:
        return {
            table: sorted(
                map(repr, connection.introspection.get_constraints(cursor, table).items())
            )
            for table in connection.introspection.table_names(cursor)
        }


def drop_every_table() -> None:
    is_sqlite = connection.vendor == "sqlite"
    with connection.cursor() as cursor:
        if is_sqlite:
            cursor.execute("PRAGMA foreign_keys=OFF")
        for table in connection.introspection.table_names(cursor):
            name = connection.ops.quote_name(table)
            cursor.execute(f"DROP TABLE {name}" if is_sqlite else f"DROP TABLE {name} CASCADE")
        assert connection.introspection.table_names(cursor) == []
    connection.close()
