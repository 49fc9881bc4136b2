"""A text that is as long as its schema allows may have been cut in the middle of a word.

The engine then shortens the text to its last complete word.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from agents.flows.beginning.locking import request_lock
from agents.llm.providers.scripted import ScriptedProvider
from agents.prompting.forms.cut_texts import end_at_words
from agents.prompting.forms.schemas import TurnDelta, json_schema_for
from agents.prompting.tests.payloads import DELTA
from agents.tests.replies import world_lock
from sessions.tests.factories import make_chapter

SCHEMA = {"type": "string", "maxLength": 20}


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        ("the keeper lit the l", "the keeper lit the…"),
        ("the keeper, the oil,", "the keeper, the oil,"),
        ("the lamp is lit now.", "the lamp is lit now."),
        ("the keeper wrote, ol", "the keeper wrote…"),
        ("the keeper lit it", "the keeper lit it"),
        ("the keeper lit the lamp", "the keeper lit the lamp"),
        ("donaudampfschifffahr", "donaudampfschifffahr"),
        ("", ""),
    ],
)
def test_a_text_that_is_full_ends_with_a_whole_word(text: str, ended: str) -> None:
    assert end_at_words(text, SCHEMA) == ended


def test_every_text_of_a_payload_is_looked_at_and_nothing_else() -> None:
    schema = json_schema_for(TurnDelta, tight=True)
    full = ("word " * 60)[: schema["properties"]["canon_locks"]["items"]["maxLength"] - 1] + "x"
    events = schema["properties"]["major_events"]["items"]["properties"]
    event = ("word " * 60)[: events["event"]["maxLength"] - 1] + "x"
    payload: dict[str, Any] = {**DELTA, "canon_locks": [full, "short"], "more": [full]}
    payload["major_events"] = [{**DELTA["major_events"][0], "event": event}]
    ended = end_at_words(payload, schema)
    assert ended["canon_locks"][0].endswith(" word…")
    assert ended["canon_locks"][1] == "short"
    assert ended["major_events"][0]["event"].endswith(" word…")
    left = {"canon_locks", "major_events"}
    assert {k: v for k, v in ended.items() if k not in left} == {
        k: v for k, v in payload.items() if k not in left
    }
    assert end_at_words(DELTA, schema) == DELTA


@pytest.mark.django_db
def test_memory_of_a_small_model_breaks_off_no_word(
    provider: ScriptedProvider, run_jobs: Callable[[], int], settings: Any
) -> None:
    settings.LLM = "embedded"
    chapter = make_chapter()
    lock = world_lock()
    cut = ("the lantern must never go out in the tower at night " * 4)[:120]
    assert cut[-1].isalpha()
    provider.enqueue(json.dumps({**lock, "canon_locks": [cut]}))
    request_lock(chapter.pk)
    run_jobs()
    (kept,) = chapter.memory_blocks.get().json_payload["canon_locks"]
    assert kept == cut.rpartition(" ")[0] + "…"
