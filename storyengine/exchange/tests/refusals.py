"""A good file for tests that break it, and a check that a broken file is refused and leaves no
rows."""

import json
from typing import Any

import pytest

from memory.models import MemoryBlock, NarrativeDraft
from sessions.models import Attempt, Event, Session, Tab1Inputs, Turn
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_errors import BadChapterFile
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.tests.chapters import make_whole_chapter

File = dict[str, Any]
# Words that tests put into invalid texts. No message may repeat these words.
SECRET = "the heron counts backwards"
KINDS = (Session, Tab1Inputs, Attempt, Turn, Event, MemoryBlock, NarrativeDraft)


def good_file() -> File:
    """Return the file of a chapter that is no longer in the database, so that all rows come from an
    import."""
    chapter = make_whole_chapter()
    file: File = json.loads(export_chapter(chapter.pk).to_json())
    Session.objects.all().delete()
    return file


def as_bytes(file: Any) -> bytes:
    return json.dumps(file).encode()


def refusal(content: bytes) -> str:
    with pytest.raises(BadChapterFile) as caught:
        import_chapter(content)
    message = str(caught.value)
    assert message.endswith("Nothing was imported.")
    assert SECRET not in message
    assert len(message) < 300
    assert not any(kind._default_manager.exists() for kind in KINDS)
    return message
