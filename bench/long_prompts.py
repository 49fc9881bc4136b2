"""Stores a chapter of 2,000 prompts in the database, and measures the time to compose each request.

This is a separate program (python -m bench.long_prompts TIER), because it needs Django's settings.
It prints a JSON object with the chapter's `session_id` and the `samples`. If a `session_id` is the
second argument, the program takes only one sample of that chapter, in a process whose caches are
empty. All models have a window of 8,192 tokens. The program calls no model. A simple tokenizer,
which stands in for the model's own, counts the tokens of each request.
"""

import gc
import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import django

from bench.token_figures import count_tokens
from testing.long_memory import CHUNK, ROSTER, delta_payload, long_lock
from testing.session_data import beat_text, reply_text
from testing.stored_turns import store_with_turns

if TYPE_CHECKING:
    from sessions.models import Attempt, Event, Session

PROMPTS = 2_000
REPLY_WORDS = 80
# Maps each tier to environment variables that choose a model of this tier. The model of the minimal
# tier is the embedded one. The engine does not know the model of the medium tier.
MODELS = {
    "minimal": {"STORYENGINE_LLM": "embedded"},
    "medium": {
        "STORYENGINE_LLM": "openai",
        "OPENAI_BASE_URL": "http://localhost:9/v1",
        "STORYENGINE_MODEL": "a-model-nobody-knows",
        "STORYENGINE_CONTEXT_WINDOW": "8192",
    },
}


@dataclass(frozen=True)
class Sample:
    """One request that was composed.

    `tokens` is the count of the stand-in tokenizer, with the separators of messages. `kind` is
    "memory" for the first prompt after a delta, "cold" for a process whose caches are empty, and
    otherwise "reply".
    """

    prompt: int
    kind: str
    milliseconds: float
    characters: int
    tokens: int
    budget: int


def main(tier: str, session_id: str = "") -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    os.environ.pop("STORYENGINE_EMBEDDED_MODEL", None)
    os.environ.update(MODELS[tier])
    django.setup()
    chapter = LongChapter()
    # The first request of a process is not measured, because composing it also reads files.
    take_sample(chapter.session_id, 1, "first")
    if session_id:
        samples = [take_sample(uuid.UUID(session_id), PROMPTS, "cold")]
    else:
        chunks = range(0, PROMPTS, CHUNK)
        samples = [sample for covered in chunks for sample in chapter.sample_chunk(covered)]
    print(
        json.dumps(
            {
                "session_id": str(chapter.session_id),
                "samples": [asdict(sample) for sample in samples],
            }
        )
    )


class LongChapter:
    """The long chapter. It is stored one stretch at a time. With `before`, it is the chapter after
    that one, with the same people."""

    def __init__(self, before: "Session | None" = None) -> None:
        from django.utils import timezone

        from memory.models import MemoryBlock
        from sessions.models import CastMember, Session, State, Tab1Inputs

        self.session = Session.objects.create(
            title="A very long chapter",
            state=State.ACTIVE,
            tab1_locked=True,
            follows=before,
            **({"story": before.story, "place": before.place + 1} if before else {}),
        )
        origins = {one.slot: one for one in before.cast} if before else {}
        Tab1Inputs.objects.create(
            session=self.session,
            world_text=beat_text(1),
            chapter_text=beat_text(2),
        )
        for slot, name in enumerate(ROSTER, 1):
            CastMember.objects.create(
                session=self.session,
                slot=slot,
                name=name,
                identity_text=reply_text(slot, 90),
                origin=origins.get(slot),
            )
        self._begun: datetime = timezone.now() - timedelta(days=30)
        MemoryBlock.objects.create(
            session=self.session,
            type=MemoryBlock.Type.WORLD_CHAPTER_LOCK,
            from_prompt_index=0,
            to_prompt_index=0,
            json_payload=long_lock(),
            created_at=self._begun,
        )

    @property
    def session_id(self) -> uuid.UUID:
        return self.session.pk

    def sample_chunk(self, covered: int) -> Iterator[Sample]:
        """Yield a sample for each prompt of the stretch that follows prompt `covered`."""
        # The garbage of building the chapter is collected here, so that its collection slows down
        # no sample.
        gc.collect()
        for number in range(covered + 1, min(covered + CHUNK, PROMPTS) + 1):
            self.play_to(number - 1)
            is_first = covered and number == covered + 1
            yield take_sample(self.session_id, number, "memory" if is_first else "reply")

    def play_to(self, last: int) -> None:
        from memory.models import MemoryBlock
        from sessions.event_terms import language_of_terms, make_terms
        from sessions.models import Event, EventTerms

        numbers = range(self.session.prompt_index + 1, last + 1)
        attempts = [self._attempt(number) for number in numbers]
        store_with_turns(attempts, first=self.session.prompt_index + 1)
        by_attempt = [self._events(attempt) for attempt in attempts]
        Event.objects.bulk_create(event for events in by_attempt for event in events)
        EventTerms.objects.bulk_create(
            row
            for events in by_attempt
            for row in make_terms(events, language_of_terms(events, self.session))
        )
        covered = last // CHUNK
        MemoryBlock.objects.bulk_create(
            MemoryBlock(
                session=self.session,
                type=MemoryBlock.Type.TURN_DELTA,
                from_prompt_index=chunk * CHUNK + 1,
                to_prompt_index=chunk * CHUNK + CHUNK,
                json_payload=delta_payload(chunk),
                created_at=self._begun + timedelta(seconds=60 * (chunk * CHUNK + CHUNK) + 30),
            )
            for chunk in range(self.session.last_summarized_prompt_index // CHUNK, covered)
        )
        self.session.prompt_index = last
        self.session.last_summarized_prompt_index = covered * CHUNK
        self.session.save()

    def _attempt(self, number: int) -> "Attempt":
        from sessions.models import Attempt

        at = self._begun + timedelta(seconds=60 * number)
        return Attempt(
            session=self.session,
            submission_key=f"beat-{number}",
            status=Attempt.Status.COMMITTED,
            actor=slot_of(number),
            words=beat_text(number),
            lease_until=at,
            submitted_at=at,
            committed_at=at + timedelta(seconds=5),
        )

    def _events(self, attempt: "Attempt") -> "tuple[Event, Event]":
        from sessions.models import Event

        assert attempt.turn is not None, "A committed attempt has a turn."
        number = attempt.turn.number
        about = {
            "session": self.session,
            "attempt": attempt,
            "prompt_index": number,
            "witnesses": self.session.selected_agent_slots,
        }
        told = Event(
            **about,
            position=0,
            role=Event.Role.USER,
            text=attempt.words,
            created_at=attempt.submitted_at,
        )
        answered = Event(
            **about,
            position=1,
            role=Event.Role.AGENT,
            agent_slot=attempt.actor,
            text=reply_text(number, REPLY_WORDS),
            created_at=attempt.submitted_at + timedelta(seconds=5),
        )
        return told, answered


def slot_of(number: int) -> int:
    return (number - 1) % len(ROSTER) + 1


def take_sample(session_id: uuid.UUID, number: int, kind: str) -> Sample:
    from agents.calling.model_access import model_name
    from agents.calling.prepared_calls import fit_prompt
    from agents.facts.model_facts import facts_of
    from agents.flows.composing import compose_reply
    from agents.modes import agent_of
    from agents.prompting.budget import TOKENS_PER_MESSAGE, calibrate, input_budget, output_limit
    from agents.providers.base import Usage
    from sessions.access import get_chapter
    from sessions.models import Attempt

    slot = slot_of(number)
    started = time.perf_counter()
    attempt = Attempt(session=get_chapter(session_id), actor=slot, words=beat_text(number))
    agent = agent_of(attempt)
    facts = facts_of(model_name(agent))
    prompt = fit_prompt(agent, facts, lambda: compose_reply(attempt))
    texts = [message.content for message in prompt.messages]
    taken = time.perf_counter() - started
    tokens = sum(map(count_tokens, texts)) + TOKENS_PER_MESSAGE * len(texts)
    # The engine's estimate learns from this count, as it does after a real call. Therefore the next
    # request fills the budget as well as a real request would.
    calibrate(model_name(agent), agent.name, prompt.weight, Usage(tokens, 0))
    return Sample(
        prompt=number,
        kind=kind,
        milliseconds=taken * 1_000,
        characters=sum(map(len, texts)),
        tokens=tokens,
        budget=input_budget(facts, output_limit(agent, facts)),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
