from itertools import pairwise
from typing import Any

import pytest

from agents.llm.providers.scripted import ScriptedProvider
from agents.models import Job
from agents.running.jobs import claim, fail
from sessions.models import State
from sessions.tests.factories import make_chapter
from storyengine.api import waiting
from storyengine.api.document_reading import is_job_over
from storyengine.api.tests.calling import in_loop
from storyengine.api.waiting import wait_seconds

pytestmark = pytest.mark.django_db


class TestWaiting:
    @pytest.mark.parametrize(
        ("prefer", "seconds"),
        [
            ("wait=10", 10),
            ("respond-async, wait=10", 10),
            ("WAIT = 10 ; x=y, handling=lenient", 10),
            ('wait="10"', 10),
            ("wait=5, wait=10", 5),
            ("wait=0", 0),
            ("wait=601", 600),
            ("wait=00007", 7),
            (f"wait={10**50}", 600),
            ("", None),
            ("respond-async", None),
            ("wait", None),
            ("wait=", None),
            ("wait=ten", None),
            ("wait=-1", None),
            ("wait=1.5", None),
            ("await=5", None),
            ("x=wait=5", None),
        ],
    )
    def test_the_header_is_read_as_rfc_7240_says(self, prefer: str, seconds: int | None) -> None:
        assert wait_seconds(prefer) == seconds

    def test_it_asks_at_most_ten_times_a_second(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked_at, clock = [], [0.0]

        async def sleep(seconds: float) -> None:
            clock[0] += seconds

        monkeypatch.setattr(waiting, "sleep", sleep)
        monkeypatch.setattr(waiting, "monotonic", lambda: clock[0])
        job = Job.objects.create(session=make_chapter(), kind="lock", key="lock")

        def is_over(_: Any) -> bool:
            asked_at.append(clock[0])
            return False

        async def scenario() -> bool:
            return await waiting.wait_until(is_over, job.pk, job.session_id, 30)

        assert in_loop(scenario) is False
        assert clock[0] == pytest.approx(30)
        pauses = [later - earlier for earlier, later in pairwise(asked_at)]
        assert min(pauses[:-1]) >= 0.1 - 1e-6
        assert max(pauses) <= 0.5 + 1e-6

    def test_a_worker_that_died_is_noticed_by_who_waits(
        self, provider: ScriptedProvider, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(waiting, "_RECOVERY_SECONDS", 0.0)
        job = Job.objects.create(session=make_chapter(state=State.LOCKING), kind="lock", key="lock")
        recovered = []

        def give_up(session_id: Any) -> None:
            recovered.append(session_id)
            claimed = claim(job.pk)
            assert claimed is not None
            fail(claimed, "The program stopped.")

        monkeypatch.setattr(waiting, "recover", give_up)

        async def scenario() -> bool:
            return await waiting.wait_until(is_job_over, job.pk, job.session_id, 5)

        assert in_loop(scenario) is True
        assert recovered == [job.session_id]
