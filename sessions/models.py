"""A chapter: its setup, the record of play, and the turn that is being played."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.urls import reverse
from django.utils import timezone

from sessions.append_only import AppendOnly
from sessions.limits import (
    DEFAULT_TARGET_WORDS,
    SUBMISSION_KEY_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
    default_config,
)
from sessions.roster import Character, character
from sessions.states import PLAYABLE, State


def default_slots() -> list[int]:
    return [1, 2, 3]


UNTITLED = "Untitled chapter"


class Chapters(models.Manager["Session"]):
    """All that are there: one that is being imported is not, until its last row is stored."""

    def get_queryset(self) -> "models.QuerySet[Session]":
        return super().get_queryset().exclude(state=State.IMPORTING)


class Session(models.Model):
    """One chapter, from setup to prose. `state` changes only through sessions.states."""

    session_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=TITLE_CHAR_LIMIT, default=UNTITLED)
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT_TAB1)
    prompt_index = models.PositiveIntegerField(default=0)
    last_summarized_prompt_index = models.PositiveIntegerField(default=0)
    selected_agent_slots = models.JSONField(default=default_slots)
    agent_names = models.JSONField(default=dict, blank=True)
    tab1_locked = models.BooleanField(default=False)
    config = models.JSONField(default=default_config)
    # End Chapter was pressed and waits for the last memory.
    is_ending = models.BooleanField(default=False)
    # How many calls the GM has accepted for memory to catch up; those that were made are taken off.
    accepted_calls = models.PositiveIntegerField(default=0)
    # The one turn in flight, claimed by a conditional UPDATE; which prompt it re-rolls, if it does.
    turn_in_flight = models.UUIDField(null=True, blank=True)
    rerolling_prompt_index = models.PositiveIntegerField(null=True, blank=True)
    # The panel that Tab 2 shows.
    next_agent_slot = models.PositiveSmallIntegerField(default=1)
    narrative_agent_definition_text = models.TextField(blank=True)
    target_words = models.PositiveIntegerField(default=DEFAULT_TARGET_WORDS)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    last_played_at = models.DateTimeField(default=timezone.now)

    objects = Chapters()
    everything = models.Manager["Session"]()

    class Meta:
        ordering = ["-last_played_at"]
        verbose_name = "chapter"

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("pages:chapter", args=[self.session_id])

    @property
    def is_untitled(self) -> bool:
        return self.title == UNTITLED

    @property
    def characters(self) -> list[Character]:
        """The characters of this chapter, in slot order."""
        return [character(slot, self.agent_names) for slot in self.selected_agent_slots]

    @property
    def is_playable(self) -> bool:
        return self.state in PLAYABLE and not self.is_ending


class Tab1Inputs(models.Model):
    """What the GM wrote on Tab 1; frozen once the chapter is locked."""

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="tab1"
    )
    world_text = models.TextField(blank=True)
    chapter_text = models.TextField(blank=True)
    agent_identity_text_by_slot = models.JSONField(default=dict, blank=True)
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = verbose_name_plural = "Tab 1 inputs"

    def __str__(self) -> str:
        return f"Tab 1 of {self.session_id}"


class Event(AppendOnly):
    """One entry of the record of play. The transcript is rendered from these, never parsed."""

    class Role(models.TextChoices):
        USER = "user"
        AGENT = "agent"
        SYSTEM = "system"

    event_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events")
    prompt_index = models.PositiveIntegerField()
    role = models.CharField(max_length=8, choices=Role)
    agent_slot = models.PositiveSmallIntegerField(null=True, blank=True)
    text = models.TextField()
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["prompt_index", "created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["session", "prompt_index"],
                condition=Q(role="user"),
                name="one_user_event_per_prompt",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["session", "prompt_index", "created_at"], name="event_order"),
        ]

    def __str__(self) -> str:
        return f"{self.prompt_index} {self.role}"


class Turn(models.Model):
    """A submission of the GM on its way to becoming Events: all of it, or nothing.

    It is stored under the key that the form carries before any model is called, so that the same
    form sent again is the same turn. `run_id` names the attempt that may write to it.
    """

    class Kind(models.TextChoices):
        PROMPT = "prompt"
        REROLL = "reroll"

    class Status(models.TextChoices):
        RUNNING = "running"
        COMMITTED = "committed"
        FAILED = "failed"
        STOPPED = "stopped"
        # Broken, and the GM went on without it; the words stay readable.
        SET_ASIDE = "set_aside"

    # Those that wait for the GM, and those with the one that is in flight.
    BROKEN = (Status.FAILED, Status.STOPPED)
    PENDING = (Status.RUNNING, *BROKEN)

    turn_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="turns")
    submission_key = models.CharField(max_length=SUBMISSION_KEY_CHAR_LIMIT)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.PROMPT)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    agent_slot = models.PositiveSmallIntegerField()
    user_text = models.TextField()
    # The prompt that a re-roll answers again; for a prompt, the number it got when committed.
    prompt_index = models.PositiveIntegerField(null=True, blank=True)
    partial_text = models.TextField(blank=True)
    error = models.TextField(blank=True)
    run_id = models.UUIDField(default=uuid.uuid4)
    lease_until = models.DateTimeField()
    submitted_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["-submitted_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["session", "submission_key"], name="one_turn_per_submission"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["status", "lease_until"], name="turn_lease"),
            # What every page of a chapter asks for, however many turns it has.
            models.Index(fields=["session", "status"], name="turn_pending"),
            models.Index(fields=["session", "submitted_at"], name="turn_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.agent_slot}: {self.status}"

    @property
    def is_running(self) -> bool:
        return self.status == self.Status.RUNNING

    @property
    def has_died(self) -> bool:
        """Its process has not renewed it for too long."""
        return self.is_running and self.lease_until < timezone.now()

    @property
    def may_run_again(self) -> bool:
        return self.is_broken or self.status == self.Status.SET_ASIDE

    @property
    def is_broken(self) -> bool:
        """Waits for the GM to retry it, keep its text, or go on without it."""
        return self.status in self.BROKEN
