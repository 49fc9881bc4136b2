import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from agents.calling.records.stored_prompts import (
    pack_layers,
    read_layers,
    read_messages,
    store_texts,
)
from agents.flows.tests.playing import play, play_many
from agents.llm.providers.base import ToolCall
from agents.llm.providers.scripted import ScriptedProvider
from agents.models import LLMArtifact
from agents.prompting.sent_layers import SentLayer
from sessions.models import Session
from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db


def store(chapter: Session, *layers: SentLayer) -> LLMArtifact:
    entries, texts = pack_layers(chapter.pk, layers)
    store_texts(texts)
    return LLMArtifact.objects.create(session=chapter, agent_id=1, model="m", layers=entries)


def size_of(chapter: Session) -> int:
    return sum(len(one.text) for one in chapter.prompt_texts.all())


def test_what_was_sent_is_read_word_for_word_and_has_its_hash(
    provider: ScriptedProvider, run_jobs: Callable[[], int]
) -> None:
    play_many(make_active_chapter(), 9)
    run_jobs()
    calls = LLMArtifact.objects.order_by("created_at")
    assert len(calls) == len(provider.history) == 10
    for call, request in zip(calls, provider.history, strict=True):
        assert read_messages(call) == request.messages
        content = json.dumps(
            [{"role": one.role, "content": one.content} for one in request.messages]
        )
        assert call.input_hash == hashlib.sha256(content.encode()).hexdigest()


def test_a_text_is_stored_once_a_chapter(provider: ScriptedProvider) -> None:
    chapter, other = make_active_chapter(), make_active_chapter()
    play(chapter)
    texts = set(chapter.prompt_texts.values_list("text", flat=True))
    play(chapter)
    play(other)
    assert texts < set(chapter.prompt_texts.values_list("text", flat=True))
    assert texts == set(other.prompt_texts.values_list("text", flat=True))
    names = chapter.prompt_texts.values_list("hash", flat=True)
    assert len(names) == len(set(names))


class TestWhatATurnAdds:
    def test_another_entry_at_the_end_and_one_less_at_the_start(self) -> None:
        chapter = make_active_chapter()
        entries = [f"{number}) " + "She waits. " * 60 for number in range(20)]
        for at in range(10):
            store(chapter, SentLayer("RECENT_CONTEXT", tuple(entries[at : at + 10])))
        assert size_of(chapter) == sum(map(len, entries[:19]))


parts = st.lists(st.text("ab\n# ", max_size=30) | st.just("long " * 100), max_size=20)


class TestAnyLayer(TestCase):
    @given(
        st.lists(
            st.builds(
                SentLayer,
                name=st.sampled_from(["", "SYSTEM", "MEMORY"]),
                role=st.sampled_from(["system", "user", "assistant", "tool"]),
                parts=parts.map(tuple),
                separator=st.sampled_from(["\n", "\n\n"]),
                has_heading=st.booleans(),
                tokens=st.integers(0, 9),
                kept=st.integers(0, 9),
                reason=st.sampled_from(["", "the window is full"]),
                tool_calls=st.sampled_from([(), (ToolCall("1", "go", '{"to": "sea"}'),)]),
                tool_call_id=st.sampled_from(["", "1"]),
            ),
            max_size=4,
        )
    )
    @settings(max_examples=60)
    def test_is_read_as_it_was_stored(self, layers: list[SentLayer]) -> None:
        call = store(make_active_chapter(), *layers)
        call.refresh_from_db()

        def shown(layer: SentLayer) -> dict[str, Any]:
            return {**asdict(layer), "parts": bool(layer.parts), "text": layer.text}

        assert list(map(shown, read_layers(call))) == list(map(shown, layers))
