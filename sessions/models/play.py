"""The tables of play: the attempts at the turns of a chapter, their events and their changes."""

import uuid
from typing import Any, ClassVar

from django.db import models
from django.utils import timezone

from sessions.append_only import AppendOnly
from sessions.limits import (
    AGENT_CHAR_LIMIT,
    AGENT_NAME_CHAR_LIMIT,
    CHANGE_NAME_CHAR_LIMIT,
    KIND_CHAR_LIMIT,
    LANGUAGE_CHAR_LIMIT,
    SUBMISSION_KEY_CHAR_LIMIT,
)
from sessions.models.chapter import DEFAULT_AGENT, SAID, Session


class Attempt(models.Model):
    """One try at a step of the story. A committed attempt is complete, and a broken one changes
    nothing.

    The attempt is stored before any model is called, under the key of the submission. So a form
    that is sent twice makes one attempt. Only the run that `run_id` names may write to the attempt.
    """

    class Kind(models.TextChoices):
        # The user's words for the next turn.
        PROMPT = "prompt"
        # Another attempt at the latest turn, which is chosen when it is committed.
        REROLL = "reroll"
        # Another attempt with one layer of the request changed. It is committed unchosen.
        TRIAL = "trial"
        # The chosen reply after the user changed its text by hand. No model is called.
        EDIT = "edit"

    class Status(models.TextChoices):
        RUNNING = "running"
        COMMITTED = "committed"
        FAILED = "failed"
        STOPPED = "stopped"
        # A broken attempt after the user has gone on without it. The words of the attempt are kept.
        SET_ASIDE = "set_aside"

    # The kinds of attempts that are part of play. A chapter has at most one of them in flight or
    # broken.
    IN_PLAY = (Kind.PROMPT, Kind.REROLL)
    # The statuses of a broken attempt, which waits for the user, and of a pending attempt, which is
    # either broken or running.
    BROKEN = (Status.FAILED, Status.STOPPED)
    PENDING = (Status.RUNNING, *BROKEN)

    attempt_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="attempts")
    # The turn that the attempt belongs to. A prompt has no turn until it is committed.
    turn = models.ForeignKey(
        "Turn", on_delete=models.CASCADE, null=True, blank=True, related_name="attempts"
    )
    # The attempt that an edit or a trial was made from.
    source = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True)
    submission_key = models.CharField(max_length=SUBMISSION_KEY_CHAR_LIMIT)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.PROMPT)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    # The number of the member of the cast who acts, or None if a narrator writes.
    actor = models.PositiveSmallIntegerField(null=True, blank=True)
    # The name of the agent who writes the attempt.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT, default=DEFAULT_AGENT)
    words = models.TextField()
    # The values of the fields that the mode adds to a prompt (`Play.given`).
    given = models.JSONField(null=True, blank=True)
    # The kept fields of the mode's setup (`Setup.kept_fields`) as they were when a run began, by
    # the id of the run. The latest run and the run that wrote `partial_text` have an entry. The
    # field is None once the attempt is committed.
    kept_setup = models.JSONField(null=True, blank=True)
    # True if the attempt came with a starter. People wrote its reply, and no model was called.
    came_with_starter = models.BooleanField(default=False)
    # For a trial, the layer that was changed, with its text before and after the change. It is None
    # for any other attempt.
    changed_layer = models.JSONField(null=True, blank=True)
    # The numbers of the members who can perceive the events. None means everybody who takes part
    # when the attempt is committed.
    witnesses = models.JSONField(null=True, blank=True)
    # The text so far. It comes from the latest run that has written text.
    partial_text = models.TextField(blank=True)
    # The id of the run that wrote `partial_text`. If the user keeps this text, the changes of this
    # run count.
    text_run_id = models.UUIDField(null=True, blank=True)
    error = models.TextField(blank=True)
    # The words of the server or the model about the failure. `error` has only words of the program.
    server_said = models.TextField(blank=True, default="")
    # The name of the member of the cast as whom the model went on to speak, or words for somebody
    # else, such as "the Game Master". The reply ends before these words. "" if the model spoke for
    # the actor alone.
    ended_before = models.CharField(max_length=AGENT_NAME_CHAR_LIMIT, blank=True, default="")
    # True if the output limit ended the reply, and its continuation did not make it whole.
    was_cut = models.BooleanField(default=False)
    run_id = models.UUIDField(default=uuid.uuid4)
    lease_until = models.DateTimeField()
    submitted_at = models.DateTimeField(default=timezone.now)
    committed_at = models.DateTimeField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-submitted_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["session", "submission_key"], name="one_attempt_per_submission"
            ),
        ]
        indexes: ClassVar = [
            # Only a few attempts are running. No column of this index changes when a lease is
            # renewed, so PostgreSQL writes the renewed row beside the old one and changes no index.
            models.Index(
                fields=["session"], condition=models.Q(status="running"), name="attempt_running"
            ),
            # With this index the database quickly finds the pending attempt, which every page of a
            # chapter needs.
            models.Index(fields=["session", "status"], name="attempt_pending"),
            models.Index(fields=["session", "submitted_at"], name="attempt_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.actor or self.agent}: {self.status}"

    def kept_setup_of(self, run_id: uuid.UUID | None) -> dict[str, Any]:
        """Return the fields of the mode's setup that were stored when this run began."""
        fields: dict[str, Any] = (self.kept_setup or {}).get(str(run_id), {})
        return fields

    @property
    def is_running(self) -> bool:
        return self.status == self.Status.RUNNING

    @property
    def is_trial(self) -> bool:
        return self.kind == self.Kind.TRIAL

    @property
    def has_died(self) -> bool:
        """Whether the lease of the running attempt seems to have run out by the clock of this
        machine. `recover_dead_attempts` decides by the clock of the database."""
        return self.is_running and self.lease_until < timezone.now()

    @property
    def is_broken(self) -> bool:
        """Whether the attempt failed or was stopped, and waits for the user."""
        return self.status in self.BROKEN


class Turn(models.Model):
    """A numbered step of the story. It names the chosen attempt, the only one whose reply is part
    of the story."""

    turn_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    number = models.PositiveIntegerField()
    chosen = models.OneToOneField(Attempt, on_delete=models.CASCADE, related_name="chosen_for")

    class Meta:
        ordering = ["number"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "number"], name="one_turn_per_number"),
        ]

    def __str__(self) -> str:
        return f"Turn {self.number}"


class Event(AppendOnly):
    """Something that was said or shown in an attempt. The user's words, if any, are the first event
    of the attempt.

    The transcript is made from the events of chosen attempts. No code makes events from a
    transcript.
    """

    class Role(models.TextChoices):
        USER = "user"
        AGENT = "agent"
        SYSTEM = "system"

    event_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="events")
    # The number of the attempt's turn, and the event's place among the events of the attempt.
    prompt_index = models.PositiveIntegerField()
    position = models.PositiveSmallIntegerField()
    role = models.CharField(max_length=8, choices=Role)
    # SAID, THOUGHT, or a kind that the mode declares.
    kind = models.CharField(max_length=KIND_CHAR_LIMIT, default=SAID)
    # The number of the member of the cast who speaks, if any.
    agent_slot = models.PositiveSmallIntegerField(null=True, blank=True)
    text = models.TextField()
    # Data that a page draws in addition to the text.
    shown = models.JSONField(null=True, blank=True)
    # The numbers of the members who could perceive the event. They are fixed when the event is
    # stored.
    witnesses = models.JSONField(default=list)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["prompt_index", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["attempt", "position"], name="one_event_per_position"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["session", "prompt_index", "position"], name="event_order"),
        ]

    def __str__(self) -> str:
        return f"{self.prompt_index} {self.role}"


class EventTerms(AppendOnly):
    """The terms that a search finds an event by (see sessions.play.events). The terms depend only
    on the texts of this event and of earlier events, so no file of a chapter needs them."""

    event = models.OneToOneField(
        Event, on_delete=models.CASCADE, primary_key=True, related_name="terms"
    )
    # The name of the stemmer for the words in Latin letters, which is the name of their language.
    language = models.CharField(max_length=LANGUAGE_CHAR_LIMIT)
    # The number of all terms, each as often as it occurs.
    length = models.PositiveIntegerField()
    # A JSON object: how often each term occurs.
    counts = models.JSONField(default=dict)

    class Meta:
        verbose_name_plural = "event terms"

    def __str__(self) -> str:
        return f"{self.length} terms, {self.language}"


class Change(AppendOnly):
    """A change of the world, made by a run of an attempt or by an act of the user after the
    attempt.

    The world is folded from the initial state and the changes that count (see
    sessions.play.played_world).
    """

    change_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="changes")
    # The index of the unique constraint begins with this field, so the field needs no index of its
    # own.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, related_name="changes", db_index=False
    )
    # The id of the run that made the change; None for an act.
    run_id = models.UUIDField(null=True, blank=True)
    # The change's place among the changes of the run, or among the acts after the attempt.
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT)
    # A JSON object, whose fields depend on the kind of the change.
    payload = models.JSONField(default=dict)
    # The name of the tool, the rule or the act that made the change.
    cause = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT, blank=True)
    # The id of the job whose late result this change takes, or None.
    result = models.UUIDField(null=True, blank=True)
    # The number of the step of the reply that made the change. It is 0 for a change from before the
    # first step.
    step = models.PositiveSmallIntegerField(default=0)
    # The number of characters that the reply's text had when this step ended. It is 0 for an act,
    # and for a change from before the first step.
    after_chars = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["position"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["attempt", "run_id", "position"], name="one_change_per_position"
            ),
            models.UniqueConstraint(
                fields=["attempt", "position"],
                condition=models.Q(run_id=None),
                name="one_act_per_position",
            ),
            models.UniqueConstraint(
                fields=["run_id", "result"],
                condition=models.Q(result__isnull=False),
                name="one_change_per_result_of_a_run",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} by {self.cause}"

    @property
    def is_act(self) -> bool:
        return self.run_id is None
