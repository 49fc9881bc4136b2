"""Writes the reply of an attempt: stores the attempt, prepares its request, writes the reply and
commits it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from django.db import Error as DatabaseError

from agents.calling.admission import give_back
from agents.calling.calls import let_through
from agents.calling.prepared_calls import PreparedCall
from agents.calling.servers.choices import refresh_choices
from agents.calling.tool_steps import Step, ToolWriting
from agents.flows.remembering.late_results import take_waiting_results
from agents.flows.replies.composing import ReplyRequest, writer_of
from agents.flows.replies.finishing import EndedElsewhere, commit_reply, end_by
from agents.flows.replies.further_calls import (
    DECLINED,
    ONCE_MORE,
    ask_once_more,
    not_declined,
    write_whole,
)
from agents.flows.replies.incoming_text import FinishedReply, ReplyReader, ShownReply, reader_of
from agents.flows.replies.layers_to_try import TrialRequest
from agents.flows.replies.warmup import settle_warmup, warm_next_reply
from agents.modes.fields import keep_fields
from agents.modes.registry import check_changes, mode_of
from agents.prompting.cleaning.declining import is_refusal
from agents.running.claims import keep_claim
from agents.running.database import in_database, in_database_patiently
from agents.running.live import LIVE_REPLIES, LiveReply, ReplyEnded, StepChanges
from agents.running.relay import relay_words
from sessions.log_lines import go_on_working_for
from sessions.models import Attempt, Change
from sessions.play.attempts import OpenedAttempt
from sessions.play.breaking import INTERRUPTED, fail_attempt
from sessions.play.played_world import NewChange, store_changes

# The seconds between two looks at an embedded model that is being fetched or loaded.
LOOK_SECONDS = 1.0

Store = Callable[[], OpenedAttempt]


@dataclass
class ReplyRun:
    """A run of an attempt, which writes the attempt's reply. `store` stores the attempt. In a
    worker, the model is not warmed up afterwards.

    `opened` is None until the attempt is stored. An agent without tools writes the reply by `call`,
    which was counted beforehand. An agent with tools writes it in `steps`, and each step checks and
    counts its own call. Both are None until the request is prepared.
    """

    store: Store
    is_in_worker: bool = False
    opened: OpenedAttempt | None = None
    call: PreparedCall | None = None
    steps: ToolWriting | None = None
    reader: ReplyReader = field(init=False)
    live: LiveReply = field(default_factory=LiveReply)

    @property
    def attempt(self) -> Attempt:
        assert self.opened is not None, "The attempt is stored first."
        return self.opened.attempt

    @property
    def must_run(self) -> bool:
        return self.opened is not None and self.opened.must_run

    async def to_end(self, stored: "asyncio.Future[OpenedAttempt]") -> None:
        """Store the attempt, and write its reply to the end. `stored` gets the stored attempt once
        its request is prepared, or the error if it was not stored.

        One task does all of this, because a second task could begin only after the event loop has
        run all other tasks. If the database cannot be reached, the attempt ends when its lease runs
        out.
        """
        self.live.task = asyncio.current_task()
        try:
            await in_database(self.begin)
        except asyncio.CancelledError:
            stored.cancel()
            raise
        except Exception as error:  # noqa: BLE001  (it is raised, or it ends the attempt)
            if self.opened is None:
                if not stored.done():
                    stored.set_exception(error)
                return
            self._tell(stored)
            await end_by(error, self.attempt, self.live)
        else:
            self._tell(stored)
            if self.must_run:
                await self._write_to_end()
        finally:
            if self.call is not None:
                give_back(self.call.admission)
            if self.opened and LIVE_REPLIES.get(self.attempt.pk) is self.live:
                del LIVE_REPLIES[self.attempt.pk]
            self.live.finish()
        if self.must_run and not (self.attempt.is_trial or self.is_in_worker):
            await warm_next_reply(self.attempt.session_id)

    def begin(self) -> None:
        """Store the attempt and prepare its request, where the ORM may be used.

        Raises the errors of `store`. The caller has to end the attempt by any other error. If the
        database has failed, the attempt has ended already, and `opened` is None.
        """
        refresh_choices()
        opened = self.store()
        self.opened, attempt = opened, opened.attempt
        if not opened.must_run:
            return
        try:
            keep_fields(attempt)
            take_waiting_results(attempt)
            # The changes that the mode makes before the first step, such as the time that a prompt
            # takes.
            if changes := mode_of(attempt.session).play.begins(attempt):
                store_changes(attempt, check_changes(attempt.session, changes))
            self.prepare()
        except DatabaseError:
            self.opened = None
            fail_attempt(attempt, error=INTERRUPTED, partial_text="")
            raise

    def prepare(self) -> None:
        """Prepare the request, unless its model is still being fetched or loaded. Raises
        ModelNotReady if the model does not come."""
        kind = TrialRequest if self.attempt.is_trial else ReplyRequest
        request = kind(self.attempt, writer_of(self.attempt))
        if request.model.is_on_its_way:
            return
        self.reader = reader_of(self.attempt, request.model)
        if request.model.agent.tools:
            self.steps = request.in_steps()
        else:
            self.call = let_through(self.attempt.session_id, request.prepare)

    def _tell(self, stored: "asyncio.Future[OpenedAttempt]") -> None:
        """Tell the waiting request that the attempt is stored, so that the reply can be
        followed."""
        assert self.opened is not None, "The attempt is stored first."
        if self.opened.must_run:
            LIVE_REPLIES[self.attempt.pk] = self.live
            go_on_working_for(session_id=self.attempt.session_id, attempt_id=self.attempt.pk)
        if not stored.done():
            stored.set_result(self.opened)

    async def _write_to_end(self) -> None:
        """Write and commit the reply, or end the attempt by the error."""
        attempt = self.attempt
        try:
            relay_words(attempt.run_id, self.live)
            with keep_claim(attempt, self.live):
                # A job waits for the model by being postponed. A reply waits in its run, so that
                # its lease is renewed and the user can stop it.
                while not (self.call or self.steps):
                    await asyncio.sleep(LOOK_SECONDS)
                    await in_database(self.prepare)
                if not attempt.is_trial:
                    await settle_warmup(attempt.session_id, attempt.actor)
                finished = await self._write()
                attempt.ended_before, attempt.was_cut = finished.ended_before, finished.was_cut
                events = await in_database_patiently(commit_reply, attempt, finished.text)
                if events:
                    self.live.committed = ReplyEnded(attempt, events=events)
        except (Exception, asyncio.CancelledError) as error:
            await end_by(error, self.attempt, self.live)
            if isinstance(error, asyncio.CancelledError):
                raise

    async def _write(self) -> FinishedReply:
        """Write the reply. If a small model's reply has faults, write it again, as often as the
        model may be asked for one reply."""
        first = await self._write_once(self.reader)
        if self.call is not None:
            return await ask_once_more(self.call, self.attempt, first, self.reader, self.live)
        assert self.steps is not None, "The request was prepared."
        if not self.reader.is_small or self.steps.has_changes or not is_refusal(first.text):
            return not_declined(first, self.reader, tries=1)
        self.live.replace("", f"{DECLINED}, {ONCE_MORE}")
        self.steps = self.steps.anew()
        return not_declined(await self._write_once(self.reader.new()), self.reader, tries=2)

    async def _write_once(self, reader: ReplyReader) -> FinishedReply:
        shown = ShownReply(reader, self.live)
        said: list[str] = []

        async def store(step: Step) -> None:
            said.append(step.text)
            after_chars = reader.chars_of("".join(said)) if step.changes else 0
            stored = await in_database_patiently(_store_step, self.attempt, step, after_chars)
            if stored is None:
                raise EndedElsewhere
            if stored:
                self.live.append(StepChanges(step.number, stored))

        try:
            if self.steps is not None:
                reply = await self.steps.write(on_text=shown.show, here=shown.here, on_step=store)
            else:
                assert self.call is not None, "The request was prepared."
                reply = await write_whole(self.call, shown)
        finally:
            # Even if the reply broke off, the text that was held back is shown.
            reader.show_rest(self.live.append)
        return reader.finish(reply)


def _store_step(attempt: Attempt, step: Step, after_chars: int) -> list[Change] | None:
    """Store the changes of the step, and return them. Returns None if the run may no longer
    write."""
    changes = [
        NewChange(
            change.kind,
            change.payload,
            cause=run.call.name,
            step=change.step,
            after_chars=after_chars,
        )
        for run in step.runs
        for change in run.changes
    ]
    if not changes:
        return []
    if not store_changes(attempt, check_changes(attempt.session, changes)):
        return None
    # The changes are read back, because the number of a person who appears is known only now.
    of_step = attempt.changes.filter(run_id=attempt.run_id, step=step.number)
    return list(of_step.order_by("position"))
