"""Reads the rows of all chapters from the program's own database at one moment.

This is a separate program (python -m chaos.rows), because it needs Django's settings. It prints one
JSON object with the time `read_at`, and with `chapters` in the form that chaos.invariants expects.
"""

import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Any
from uuid import UUID

import django
from django.db import connection, transaction
from django.utils import timezone

from chaos.worlds import as_rows, mark_of

if TYPE_CHECKING:
    from sessions.models import Session


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    django.setup()
    print(json.dumps(read_rows()))


def read_rows() -> dict[str, Any]:
    from sessions.models import Session

    with transaction.atomic():
        if connection.vendor == "postgresql" and not connection.savepoint_ids:
            with connection.cursor() as cursor:
                # On PostgreSQL, all queries of the transaction see the database at one moment only
                # at this isolation level. On SQLite they always do.
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        chapters = Session.everything.select_related("tab1").order_by("created_at")
        return {
            "read_at": timezone.now().timestamp(),
            "chapters": [rows_of(chapter) for chapter in chapters],
        }


def rows_of(chapter: "Session") -> dict[str, Any]:
    from agents.modes.declaration import Stage
    from agents.modes.registry import has_stage, mode_of
    from sessions.play.events import reply

    mode = mode_of(chapter)
    return {
        "mode": chapter.mode,
        "has_lock": has_stage(chapter.mode, Stage.LOCK),
        "is_remembered": has_stage(chapter.mode, Stage.MEMORY),
        "has_outcome": mode.play.outcome is not reply,
        "most_turns_alone": mode.play.most_turns_alone,
        **_world_rows(chapter),
        "session_id": str(chapter.pk),
        "state": chapter.state,
        "prompt_index": chapter.prompt_index,
        "last_summarized_prompt_index": chapter.last_summarized_prompt_index,
        "chunk_size_prompts": chapter.chunk_size_prompts,
        "tab1_locked": chapter.tab1_locked,
        "is_ending": chapter.is_ending,
        "turn_in_flight": chapter.turn_in_flight and str(chapter.turn_in_flight),
        "updated_at": chapter.updated_at.timestamp(),
        "origin_id": chapter.origin_id and str(chapter.origin_id),
        "fork_key": chapter.fork_key,
        "forked_at_prompt": chapter.forked_at_prompt,
        "world_text": chapter.tab1.world_text,
        "chapter_text": chapter.tab1.chapter_text,
        "identities": chapter.agent_texts("identity_text"),
        "events": _event_rows(chapter),
        "blocks": _block_rows(chapter),
        "drafts": [
            {"draft_id": str(draft.pk), "text": draft.chapter_text}
            for draft in chapter.narrative_drafts.all()
        ],
        "turns": [
            {"number": turn.number, "chosen": str(turn.chosen_id)} for turn in chapter.turns.all()
        ],
        "attempts": _attempt_rows(chapter),
        "changes": _change_rows(chapter),
        "jobs": _job_rows(chapter),
        "calls": _call_rows(chapter),
        "spent": [
            {
                "of": [total.provider, total.model],
                "tokens": [
                    total.read,
                    total.cached,
                    total.written,
                    total.guessed_read,
                    total.guessed_written,
                ],
            }
            for total in chapter.spent_tokens.all()
        ],
    }


def _world_rows(chapter: "Session") -> dict[str, Any]:
    """Return the world of a chapter that has one, as it is and as it was at the beginning."""
    from agents.modes.registry import mode_of

    if not chapter.attempts.exists():
        return {"world": None, "first_world": None}
    rules = mode_of(chapter).world
    world = as_rows(rules.now(chapter))
    first = as_rows(rules.initial_state(chapter)) if world else None
    return {"world": world, "first_world": first}


def _event_rows(chapter: "Session") -> list[dict[str, Any]]:
    return [
        {
            "event_id": str(event.pk),
            "attempt_id": str(event.attempt_id),
            "prompt_index": event.prompt_index,
            "role": event.role,
            "text": event.text,
        }
        for event in chapter.events.all()
    ]


def _block_rows(chapter: "Session") -> list[dict[str, Any]]:
    return [
        {
            "type": block.type,
            "attempt_id": block.attempt_id and str(block.attempt_id),
            "audience": block.audience,
            "from_prompt_index": block.from_prompt_index,
            "to_prompt_index": block.to_prompt_index,
            "text": mark_of(json.dumps(block.json_payload, ensure_ascii=False)),
        }
        for block in chapter.memory_blocks.all()
    ]


def _change_rows(chapter: "Session") -> list[dict[str, Any]]:
    return [
        {
            "attempt_id": str(change.attempt_id),
            "run_id": change.run_id and str(change.run_id),
            "position": change.position,
            "step": change.step,
            "kind": change.kind,
            "payload": change.payload,
            "result": change.result and str(change.result),
        }
        for change in chapter.changes.all()
    ]


def _attempt_rows(chapter: "Session") -> list[dict[str, Any]]:
    """Return the attempts, each with the number of its finished model calls. Of a reply in steps,
    it is the number of calls of the step that took the most."""
    calls = chapter.llm_artifacts.filter(error="").values_list("attempt_id", "agent", "step")
    finished: dict[UUID, int] = {}
    for (attempt_id, *_), count in Counter(calls).items():
        if attempt_id is not None:
            finished[attempt_id] = max(finished.get(attempt_id, 0), count)
    return [
        {
            "attempt_id": str(attempt.pk),
            "key": attempt.submission_key,
            "kind": attempt.kind,
            "status": attempt.status,
            "actor": attempt.actor,
            "words": attempt.words,
            "given": attempt.given,
            "run_id": str(attempt.run_id),
            "text_run_id": attempt.text_run_id and str(attempt.text_run_id),
            "submitted_at": attempt.submitted_at.timestamp(),
            "committed_at": attempt.committed_at and attempt.committed_at.timestamp(),
            "number": attempt.turn.number if attempt.turn else None,
            "lease_until": attempt.lease_until.timestamp(),
            "finished_calls": finished.get(attempt.pk, 0),
        }
        for attempt in chapter.attempts.select_related("turn")
    ]


def _call_rows(chapter: "Session") -> list[dict[str, Any]]:
    """Return the model calls. Each has the hash of the messages that were sent, the hash of the
    messages that its stored layers give, the text of these messages if it has a secret, and its
    tokens in the order of the chapter's totals."""
    from agents.calling.records.stored_prompts import hash_messages, read_messages

    rows = []
    for call in chapter.llm_artifacts.all():
        text = ""
        try:
            messages = read_messages(call)
            joined = hash_messages(messages)
            text = mark_of("\n".join(message.content for message in messages))
        except KeyError as missing:
            joined = f"no text {missing}"
        reported = [call.token_counts.get(kind, 0) for kind in ("input", "cached", "output")]
        rows.append(
            {
                "call_id": str(call.pk),
                "sent": call.input_hash,
                "joined": joined,
                "text": text,
                "of": [call.provider, call.model],
                "tokens": [*reported, call.estimated_input, call.estimated_output],
            }
        )
    return rows


def _job_rows(chapter: "Session") -> list[dict[str, Any]]:
    return [
        {
            "job_id": str(job.pk),
            "kind": job.kind,
            "result_kind": job.result_kind,
            "result": job.result,
            "runs": job.attempts,
            "key": job.key,
            "attempt_id": job.attempt_id and str(job.attempt_id),
            "status": job.status,
            "from_prompt_index": job.from_prompt_index,
            "to_prompt_index": job.to_prompt_index,
            "run_after": job.run_after.timestamp(),
            "lease_until": job.lease_until.timestamp() if job.lease_until else None,
            "updated_at": job.updated_at.timestamp(),
        }
        for job in chapter.jobs.all()
    ]


if __name__ == "__main__":
    main()
