"""What every test may rely on: no real model, no broker, and a way to run what was queued."""

import os
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest
from django.conf import settings

from agents.calling.model_access import substitute_provider
from agents.providers.guard import allow_real_calls, forbid_real_calls
from agents.providers.scripted import ScriptedProvider
from agents.running.jobs import due_jobs
from agents.running.work import work_on
from agents.tests.replies import answer_in_form
from storyengine.tests.running import RunningProgram

# How long an example takes is the machine's affair, and what else it does. Where a change is judged
# (CI=true), each test tries the same examples each time; what others find becomes an `@example`.
hypothesis.settings.register_profile(
    "untimed",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    database=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("untimed")

# What starts processes, and mostly waits for them.
_LONG = {"browser", "processes", "real_model"}
# What differs with neither, however a program is started for it: pages that are looked at, the
# embedded model, and what is refused before anything is stored.
_ONE_STACK = {"browser", "real_model", "one_stack"}
# What a test asks pytest-django for when it reads or writes rows.
_DATABASE = {"db", "transactional_db", "live_server"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what differs with the database and the broker, and let long tests begin first.

    Short tests fill what the long ones leave of the processors.
    """
    for item in items:
        if isinstance(item, pytest.Function) and _meets_servers(item):
            item.add_marker("servers")
    items.sort(key=lambda item: _LONG.isdisjoint(mark.name for mark in item.iter_markers()))


def _meets_servers(test: pytest.Function) -> bool:
    marks = {mark.name for mark in test.iter_markers()}
    of_servers = test.nodeid.startswith(("storyengine/stack/", "storyengine/backups/", "chaos/"))
    return (
        of_servers
        or not marks.isdisjoint({"processes", "django_db"})
        or not _DATABASE.isdisjoint(test.fixturenames)
    ) and marks.isdisjoint(_ONE_STACK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Function,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A test of the whole program fails with what the program has logged."""
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
    """A SQLite file of this run's own: streaming code writes from several threads."""
    database = settings.DATABASES["default"]
    if database["ENGINE"] == "django.db.backends.sqlite3":
        database["TEST"]["NAME"] = str(tmp_path_factory.mktemp("database") / "test.sqlite3")


@pytest.fixture(autouse=True)
def _no_real_calls(request: pytest.FixtureRequest) -> Iterator[None]:
    if "real_model" in request.keywords or "browser" in request.keywords:
        yield
        return
    forbid_real_calls()
    yield
    allow_real_calls()


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Streaming code sees what the test's transaction holds."""
    monkeypatch.setattr("agents.running.database.database_threads", None)


@pytest.fixture(autouse=True)
def _nothing_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process keeps of the database ends with the test that filled it."""
    monkeypatch.setattr("agents.prompting.budget._weight_per_token", {})
    monkeypatch.setattr("agents.calling.rates._latest", None)
    monkeypatch.setattr("agents.calling.rates._replies", Counter())
    monkeypatch.setattr("agents.facts.reported_windows._held", {})
    monkeypatch.setattr("agents.embedded.status._last_read", "")


@pytest.fixture(autouse=True)
def _nothing_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply is the last call of its test: what follows by itself would run as far as it gets."""

    async def stay_idle(_session_id: uuid.UUID) -> None: ...

    monkeypatch.setattr("agents.flows.replies.warm_next_reply", stay_idle)


@pytest.fixture(autouse=True)
def noticed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the jobs that the broker was told of, instead of a broker."""
    ids: list[str] = []

    def note(_name: str, *, kwargs: dict[str, Any], countdown: float | None) -> None:
        ids.append(kwargs["job_id"])

    monkeypatch.setattr("agents.running.jobs.current_app.send_task", note)
    return ids


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    """Every agent answers from this provider: what is queued, then something in its form."""
    scripted = ScriptedProvider(fallback=answer_in_form)
    with substitute_provider(scripted):
        yield scripted


@pytest.fixture
def run_jobs(db: None) -> Callable[[], int]:
    """Work on every job that is due until none is; returns how many there were."""

    def run() -> int:
        count = 0
        while job_id := due_jobs().values_list("pk", flat=True).first():
            work_on(job_id)
            count += 1
        return count

    return run
