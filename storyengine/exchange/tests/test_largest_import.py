"""The measurement of how long an import of 100,000 events keeps another writer waiting.

The test takes minutes. It runs with STORYENGINE_TEST_STRIDE=1, as it does in the weekly run.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agents.models import ProviderConsent
from sessions.models import Event, Session
from storyengine.exchange.tests.chapters import long_chapter_file
from storyengine.exchange.tests.test_large_imports import url_of_database

PROMPTS = 50_000
LONGEST_WAIT_SECONDS = 1.0
PAUSE_SECONDS = 0.01


@pytest.mark.skipif(
    os.environ.get("STORYENGINE_TEST_STRIDE") != "1", reason="takes minutes, so it runs weekly"
)
@pytest.mark.processes
@pytest.mark.django_db(transaction=True)
def test_it_keeps_no_writer_waiting_for_more_than_a_second(tmp_path: Path) -> None:
    file = tmp_path / "long.json"
    file.write_bytes(long_chapter_file(PROMPTS))
    # A process of its own imports the file, as an operator would. In a thread of this process, the
    # import would also keep the writer from running.
    importing = subprocess.Popen(  # noqa: S603  (its words are this test's own)
        [sys.executable, "manage.py", "import_chapter", file],
        env={**os.environ, "DATABASE_URL": url_of_database()},
    )
    waits = []
    try:
        while importing.poll() is None:
            began = time.monotonic()
            ProviderConsent.objects.update_or_create(host="models.example")
            waits.append(time.monotonic() - began)
            time.sleep(PAUSE_SECONDS)
    finally:
        importing.kill()
        importing.wait()
    assert importing.returncode == 0
    assert Event.objects.filter(session=Session.objects.get()).count() == 2 * PROMPTS
    assert max(waits) < LONGEST_WAIT_SECONDS
