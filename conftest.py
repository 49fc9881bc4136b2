"""Fixtures and hooks for all tests.

By default, a test calls no real model and no broker, and it can run the jobs that it queued.
"""

import os
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import hypothesis
import pytest
from django.conf import settings

from agents.calling.model_access import substitute_provider
from agents.calling.servers.caps import NO_CAPS
from agents.llm.providers.guard import allow_real_calls, forbid_real_calls
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from sessions.tests.weekly import LONG, few, left_to_the_week
from storyengine.tests.both_stacks import on_both_stacks
from storyengine.tests.running import RunningProgram, SharedFolder

# Hypothesis sets no deadline for an example, because its time depends on the machine and on the
# other work of the machine. The weekly run tries twice as many examples as each other run. In
# continuous integration (CI=true) each run of a test tries the same examples. Elsewhere the
# examples are random. When a random example shows a bug, a developer adds it to the test as an
# `@example`.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    max_examples=few(50, 100),
    derandomize=bool(os.environ.get("CI")),
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, None, None]:
    """Leave out what only the weekly run tries, and mark the tests that run on both stacks, before
    tests are chosen by their marks. After they were shuffled, sort the long tests to the front. A
    long test mostly waits, so other processes can run the short tests meanwhile.

    Nothing is left out of tests that were named on the command line."""
    functions = [item for item in items if isinstance(item, pytest.Function)]
    is_whole = [Path(argument).resolve() for argument in config.args] == [config.rootpath]
    if left := left_to_the_week(functions) if is_whole else []:
        config.hook.pytest_deselected(items=left)
        ids = {id(item) for item in left}
        items[:] = [item for item in items if id(item) not in ids]
    for test in on_both_stacks([item for item in items if isinstance(item, pytest.Function)]):
        test.add_marker("servers")
    yield
    items.sort(key=_begins_at)


def _begins_at(item: pytest.Item) -> int:
    """Return the place of a test in the order: first those that each run tries although they take
    long, then the other long ones, and last the short ones."""
    marks = {mark.name for mark in item.iter_markers()}
    if any(mark.startswith("each_run") for mark in marks):
        return 0
    return 1 if not LONG.isdisjoint(marks) else 2


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the program's logs to the report when a test of the whole program fails."""
    report = yield
    if report.failed:
        for started in item.funcargs.values():
            if isinstance(started, RunningProgram):
                report.sections.append(("The program's logs", started.processes.end_of_logs()))
    return report


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings: None, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Put the SQLite database of each run into a file, because an SQLite database in memory cannot
    be shared by the threads that write while a reply is streamed."""
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture(scope="session", autouse=True)
def _shared_folder(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Name the folder above those of the processes among which pytest has divided the tests."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        SharedFolder.path = tmp_path_factory.getbasetemp().parent


@pytest.fixture(autouse=True)
def _no_real_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    if "real_model" in request.keywords or "browser" in request.keywords:
        yield
        return
    forbid_real_calls()
    # The page Models looks for servers of this machine.
    with patch("storyengine.tabs.models.models_page.find_servers", list):
        yield
    allow_real_calls()


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run all database code in the test's own thread, where it sees the rows of the test's
    transaction."""
    monkeypatch.setattr("agents.running.database.database_threads", None)


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each test with empty caches of values from the database, and empty the caches
    afterwards."""
    monkeypatch.setattr("agents.prompting.budget._weight_per_token", {})
    monkeypatch.setattr("agents.prompting.budget._doubted", {})
    monkeypatch.setattr("agents.calling.admission._given_back", [])
    monkeypatch.setattr("agents.llm.facts.reported_windows._held", {})
    monkeypatch.setattr("agents.calling.servers.choices._stored", {})
    monkeypatch.setattr("agents.calling.servers.refused_fields._refused", {})
    monkeypatch.setattr("agents.calling.servers.choices._addresses", {})
    monkeypatch.setattr("agents.calling.servers.caps._stored", NO_CAPS)
    monkeypatch.setattr("agents.llm.embedded.status._last_read", "")


@pytest.fixture(autouse=True)
def _nothing_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switch off the reading ahead for the next reply, because it would go on after the end of the
    test."""

    async def stay_idle(_session_id: uuid.UUID) -> None: ...

    monkeypatch.setattr("agents.flows.replies.writing.warm_next_reply", stay_idle)


@pytest.fixture(autouse=True)
def noticed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Replace the broker by a list, and return the list. Instead of a notice to the broker, the
    job's id is added to the list."""
    ids: list[str] = []

    def note(_name: str, *, kwargs: dict[str, Any], **_options: object) -> None:
        ids.append(kwargs["job_id"])

    monkeypatch.setattr("agents.running.notices.current_app.send_task", note)
    monkeypatch.setattr(
        "agents.running.recovery.count_notices", lambda: dict.fromkeys(Job.Queue.values, 0)
    )
    return ids


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    """Yield a scripted provider that answers for every agent.

    The provider first gives the answers that a test has queued. After them, it makes answers in the
    form that each request asks for.
    """
    scripted = ScriptedProvider(fallback=answer_in_form)
    with substitute_provider(scripted):
        yield scripted


@pytest.fixture
def run_jobs(db: None) -> Callable[[], int]:
    """Return a function that works on the due jobs until none is left, and returns their number."""

    def run() -> int:
        count = 0
        while job_id := due_jobs().values_list("pk", flat=True).first():
            work_on(job_id)
            count += 1
        return count

    return run
