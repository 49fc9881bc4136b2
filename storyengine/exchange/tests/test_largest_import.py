"""The measurement of how long an import of 100,000 events keeps another writer waiting.

The test takes minutes. It runs with STORYENGINE_TEST_STRIDE=1, as it does in the weekly run.
"""

import os
import threading
import time

import pytest
from django.db import connection

from agents.models import ProviderConsent
from sessions.models import Event
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.limits import OF_THE_OPERATOR
from storyengine.exchange.tests.chapters import long_chapter_file

PROMPTS = 50_000
LONGEST_WAIT_SECONDS = 1.0
PAUSE_SECONDS = 0.01


class Writer(threading.Thread):
    """A thread that writes to the database again and again, and measures how long each write
    takes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seconds: list[float] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            while not self.is_over.wait(PAUSE_SECONDS):
                began = time.monotonic()
                ProviderConsent.objects.update_or_create(host="models.example")
                self.seconds.append(time.monotonic() - began)
        finally:
            connection.close()


@pytest.mark.skipif(
    os.environ.get("STORYENGINE_TEST_STRIDE") != "1", reason="takes minutes, so it runs weekly"
)
@pytest.mark.django_db(transaction=True)
def test_it_keeps_no_writer_waiting_for_more_than_a_second() -> None:
    content = long_chapter_file(PROMPTS)
    writer = Writer()
    writer.start()
    try:
        chapter = import_chapter(content, OF_THE_OPERATOR)
    finally:
        writer.is_over.set()
        writer.join()
    assert Event.objects.filter(session=chapter).count() == 2 * PROMPTS
    # A writer that had failed would have measured only the writes before its failure.
    assert len(writer.seconds) > 100
    assert max(writer.seconds) < LONGEST_WAIT_SECONDS
