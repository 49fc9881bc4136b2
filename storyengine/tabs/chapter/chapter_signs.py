"""The values that tell an open Tab 3 that there is something new to show."""

import hashlib
import json
import uuid
from dataclasses import dataclass
from typing import Any

from agents.flows.telling.ending import Setback, find_setback
from agents.models import Job
from agents.running.jobs import latest_jobs
from agents.running.recovery import is_left_behind, recover
from memory.blocks.stretches import CatchingUp, calls_to_accept, catching_up
from sessions.models import (
    PLAYABLE,
    Attempt,
    Session,
    State,
)
from storyengine.tabs.page_status import status_with_memory


@dataclass(frozen=True)
class ChapterSigns:
    """The values that tell an open page that there is something new to show."""

    chapter: Session
    jobs: dict[str, Job]
    block_count: int
    draft_count: int

    @property
    def build(self) -> Job | None:
        return self.jobs.get(Job.Kind.NARRATE)

    @property
    def is_in_play(self) -> bool:
        return self.chapter.state in PLAYABLE

    @property
    def setback(self) -> Setback | None:
        return find_setback(self.chapter, self.jobs)

    @property
    def calls_to_accept(self) -> int:
        return calls_to_accept(self.chapter, is_ending=False)

    @property
    def catching_up(self) -> CatchingUp | None:
        return catching_up(self.chapter)

    @property
    def poll_seconds(self) -> int:
        """The seconds between two polls of the page. It is 0 if nothing can change without the
        user."""
        if any(job.is_live for job in self.jobs.values()) or self.chapter.turn_in_flight:
            return 2
        # The state shows work, but no job is running. The job has just ended, and the state will
        # change, so the page has to ask again.
        if self.chapter.state in (State.LOCKING, State.SUMMARIZING, State.NARRATING):
            return 2
        return 10 if self.is_in_play else 0

    @property
    def memory_version(self) -> str:
        """A digest of everything that the memory cell shows. When the digest changes, the cell is
        out of date."""
        return _digest(
            self.chapter.state,
            self.chapter.is_ending,
            self.chapter.prompt_index,
            # The choice of another attempt can change which blocks count, while the number of these
            # blocks does not change. But each choice sets `last_played_at`.
            self.chapter.last_played_at.isoformat(),
            self.setback.job.error if self.setback else "",
            self.calls_to_accept,
            self.chapter.accepted_calls,
            self.block_count,
        )

    @property
    def version(self) -> str:
        shown: list[Any] = [self.memory_version, self.poll_seconds, self.draft_count]
        if self.build:
            shown += [self.build.status, self.build.error, self.build.progress]
            shown += [len(self.build.partial_text)]
        return _digest(*shown)


def read_status(session_id: uuid.UUID) -> ChapterSigns:
    """Return the values that tell a page that there is something new to show. Two queries read
    these values. If a process has died, the attempts and jobs that it left running are ended
    first."""
    signs, attempt = _read_status(session_id)
    if is_left_behind(signs.chapter, signs.jobs, attempt):
        recover(session_id)
        signs, _ = _read_status(session_id)
    return signs


def _read_status(session_id: uuid.UUID) -> tuple[ChapterSigns, Attempt | None]:
    chapter, attempt, blocks, drafts = status_with_memory(session_id)
    return ChapterSigns(chapter, latest_jobs(chapter), blocks, drafts), attempt


def _digest(*shown: Any) -> str:
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()[:16]
