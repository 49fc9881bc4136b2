"""The tables of a chapter: its setup, the attempts at its turns, and the record of play."""

import uuid
from functools import cached_property
from itertools import count
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from django.urls import reverse
from django.utils import timezone

from sessions.append_only import AppendOnly
from sessions.limits import (
    AGENT_CHAR_LIMIT,
    AGENT_NAME_CHAR_LIMIT,
    CHANGE_NAME_CHAR_LIMIT,
    CHUNK_SIZE_PROMPTS,
    DEFAULT_TARGET_WORDS,
    KIND_CHAR_LIMIT,
    MAX_AGENTS,
    MAX_PEOPLE,
    MODE_CHAR_LIMIT,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    SUBMISSION_KEY_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.roster import Character, character
from sessions.states import PLAYABLE, State

UNTITLED = "Untitled chapter"
# The mode of a chapter that names no mode. The second name is that of the agent that writes its
# attempts.
DEFAULT_MODE, DEFAULT_AGENT = "gamemaster", "character"
# The kinds of event that the engine itself knows. A thought is known only to its thinker and the
# user.
SAID, THOUGHT = "said", "thought"
# The kind of change that the engine itself knows: somebody without a panel appears in play and
# joins the cast. The payload has name, pronouns, public_text, and the number by which witnesses
# name the person.
PERSON = "person"
# The lowest number of people who appear in play. The slots have the first numbers, and the people
# of Tab 1 the next ones.
FIRST_NUMBER_IN_PLAY = MAX_AGENTS + MAX_PEOPLE + 1


class Chapters(models.Manager["Session"]):
    """All chapters, except those that are being imported and whose last row is not stored yet."""

    def get_queryset(self) -> "models.QuerySet[Session]":
        return super().get_queryset().exclude(state=State.IMPORTING)


class Session(models.Model):
    """One chapter, from its setup to its drafts. `state` changes only through sessions.states."""

    session_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=TITLE_CHAR_LIMIT, default=UNTITLED)
    # The name of the mode; see agents.modes.
    mode = models.CharField(max_length=MODE_CHAR_LIMIT, default=DEFAULT_MODE)
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT_TAB1)
    prompt_index = models.PositiveIntegerField(default=0)
    last_summarized_prompt_index = models.PositiveIntegerField(default=0)
    tab1_locked = models.BooleanField(default=False)
    # The number of prompts that one summary covers.
    chunk_size_prompts = models.PositiveSmallIntegerField(default=CHUNK_SIZE_PROMPTS)
    # True if the user asked to end the chapter, which then ends after the last summary.
    is_ending = models.BooleanField(default=False)
    # The number of model calls that the GM has accepted for memory and that are not made yet.
    accepted_calls = models.PositiveIntegerField(default=0)
    # The id of the attempt in flight. A conditional UPDATE claims it.
    turn_in_flight = models.UUIDField(null=True, blank=True)
    # True if Tab 2 also shows the attempts that are not chosen.
    shows_all_replies = models.BooleanField(default=False)
    # True if Tab 2 also shows thoughts.
    shows_thoughts = models.BooleanField(default=False)
    # True if an event or a ruling is not known to the whole cast. The parts of a request that would
    # be the same for all characters are then composed for each character.
    differs_by_reader = models.BooleanField(default=False)
    # Chance is drawn from this seed, the turn's number and the name of what is drawn.
    seed = models.UUIDField(default=uuid.uuid4, editable=False)
    # The panel that Tab 2 shows.
    next_agent_slot = models.PositiveSmallIntegerField(default=1)
    narrative_agent_definition_text = models.TextField(blank=True)
    target_words = models.PositiveIntegerField(default=DEFAULT_TARGET_WORDS)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    last_played_at = models.DateTimeField(default=timezone.now)
    # The time of the import, if the chapter came from a file. The file gives all its other times.
    imported_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The origin of a fork. It is None once the origin is deleted. The next fields are the origin's
    # title at the time of the fork, the last turn that both have in common, and the key of the form
    # that asked for the fork.
    origin = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="forks"
    )
    origin_title = models.CharField(max_length=TITLE_CHAR_LIMIT, blank=True)
    forked_at_prompt = models.PositiveIntegerField(default=0)
    fork_key = models.CharField(max_length=SUBMISSION_KEY_CHAR_LIMIT, blank=True)
    # The tokens that the origin had used of each model when it was forked; see
    # agents.calling.spending. They never change.
    inherited_usage = models.JSONField(default=dict, blank=True)

    objects = Chapters()
    everything = models.Manager["Session"]()

    class Meta:
        ordering = ["-last_played_at"]
        verbose_name = "chapter"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["origin", "fork_key"], name="one_fork_per_submission"),
        ]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("pages:chapter", args=[self.session_id])

    @property
    def is_untitled(self) -> bool:
        return self.title == UNTITLED

    @property
    def is_fork(self) -> bool:
        return self.forked_at_prompt > 0

    @cached_property
    def cast(self) -> tuple["CastMember", ...]:
        """All members of the cast, including those that are deselected. Characters come first, by
        slot, and then people without a panel."""
        return tuple(self.members.all())

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        """The members who take part from the first turn on. Characters come first, by slot, and
        then people without a panel.

        People who appeared in play are not among them; see `sessions.world.everybody_at`.
        """
        return tuple(one for one, member in self._numbered_cast if member.is_selected)

    @cached_property
    def characters(self) -> list[Character]:
        """The characters of this chapter, in slot order."""
        return [one for one in self.everybody if one.slot]

    @cached_property
    def _numbered_cast(self) -> list[tuple[Character, "CastMember"]]:
        """Each member of the cast with its number. People without a panel have numbers above all
        slots."""
        people = count(MAX_AGENTS + 1)
        return [(one.as_character(one.slot or next(people)), one) for one in self.cast]

    @property
    def everybodys_numbers(self) -> list[int]:
        """The numbers of everybody on Tab 1, in ascending order. Witnesses are named by these
        numbers."""
        return [one.number for one in self.everybody]

    @property
    def selected_agent_slots(self) -> list[int]:
        return [one.slot for one in self.characters]

    @property
    def agent_names(self) -> dict[str, str]:
        """The names of the selected characters. The key is the slot as text, because JSON has only
        text as keys."""
        return {str(one.slot): one.name for one in self.characters}

    def agent_texts(self, field: str) -> dict[str, str]:
        """Return the texts of this field of `CastMember`. The key is the slot as text, and empty
        texts are left out.

        Deselected slots are included.
        """
        texts = {one.slot: getattr(one, field) for one in self.cast if one.slot}
        return {str(slot): text for slot, text in texts.items() if text}

    def character(self, number: int) -> Character:
        """Return the member of the cast with this number. The member need not be selected."""
        known = self._characters_by_number
        if number not in known and number >= FIRST_NUMBER_IN_PLAY:
            # People who appeared in attempts that are not chosen are included, because pages also
            # show those.
            known.update((one["number"], character(**one)) for one in self.people_in_play())
        return known.get(number) or character(number)

    def people_in_play(self) -> "models.QuerySet[Change, dict[str, Any]]":
        """Return the payload of each person who appeared in a run that is committed or still may
        be.

        If a person appears in two attempts, two payloads may have the same number.
        """
        of_run = Q(run_id=None) | Q(run_id=F("attempt__run_id"))
        people = self.changes.filter(of_run | Q(run_id=F("attempt__text_run_id")), kind=PERSON)
        may_count = people.exclude(attempt__status=Attempt.Status.SET_ASIDE)
        return may_count.values_list("payload", flat=True)

    @cached_property
    def _characters_by_number(self) -> dict[int, Character]:
        return {one.number: one for one, _ in self._numbered_cast}

    def forget_cast(self) -> None:
        """Drop the cast that is in memory, so that it is read from the database again."""
        for name in (
            *("cast", "everybody", "characters", "_numbered_cast", "_characters_by_number"),
        ):
            self.__dict__.pop(name, None)

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        self.forget_cast()
        super().refresh_from_db(*args, **kwargs)

    @property
    def is_playable(self) -> bool:
        return self.state in PLAYABLE and not self.is_ending


class Tab1Inputs(models.Model):
    """The texts of Tab 1; `sessions.chapters.is_setup_open` says when they can be changed."""

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="tab1"
    )
    world_text = models.TextField(blank=True)
    chapter_text = models.TextField(blank=True)
    # The values of the fields of the mode's model `Mode.setup`. They are empty until they are
    # saved.
    mode_setup = models.JSONField(default=dict, blank=True)
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = verbose_name_plural = "Tab 1 inputs"

    def __str__(self) -> str:
        return f"Tab 1 of {self.session_id}"


class CastMember(models.Model):
    """A character with a panel, or a person without one. Rows can be changed as long as Tab 1
    can."""

    member_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="members")
    # The number of the character's panel; None for a person.
    slot = models.PositiveSmallIntegerField(null=True, blank=True)
    # False if the character takes no part; its texts are kept.
    is_selected = models.BooleanField(default=True)
    # A character without a name has a default name.
    name = models.CharField(max_length=AGENT_NAME_CHAR_LIMIT, blank=True)
    pronouns = models.CharField(max_length=PRONOUNS_CHAR_LIMIT, blank=True)
    # A sentence that everybody may know.
    public_text = models.CharField(max_length=PUBLIC_TEXT_CHAR_LIMIT, blank=True)
    # Only the character's own requests have this text.
    identity_text = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = [models.F("slot").asc(nulls_last=True), "member_id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "slot"], name="one_member_per_slot"),
        ]

    def __str__(self) -> str:
        return self.as_character(self.slot or 0).name

    def as_character(self, number: int) -> Character:
        return character(number, self.name, self.pronouns, self.public_text)


class Attempt(models.Model):
    """One try at a step of the story. It is committed as a whole, or it is broken and changes
    nothing.

    The attempt is stored before any model is called, under the key of the form. So a form that is
    sent twice makes one attempt. `run_id` names the run that may write to it.
    """

    class Kind(models.TextChoices):
        # The user's words for the next turn.
        PROMPT = "prompt"
        # Another attempt at the latest turn, which is chosen when it is committed.
        REROLL = "reroll"
        # Another attempt with one layer of the request changed. It is committed unchosen.
        TRIAL = "trial"
        # The chosen reply after the user rewrote it by hand. No model is called.
        EDIT = "edit"

    class Status(models.TextChoices):
        RUNNING = "running"
        COMMITTED = "committed"
        FAILED = "failed"
        STOPPED = "stopped"
        # The attempt is broken, and the user went on without it. Its words can still be read.
        SET_ASIDE = "set_aside"

    # The kinds of attempts in play. At most one attempt of these kinds is in flight or broken.
    IN_PLAY = (Kind.PROMPT, Kind.REROLL)
    # A broken attempt waits for the user. A pending attempt is broken or running.
    BROKEN = (Status.FAILED, Status.STOPPED)
    PENDING = (Status.RUNNING, *BROKEN)

    attempt_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="attempts")
    # The turn of which this is an attempt. A prompt has no turn until it is committed.
    turn = models.ForeignKey(
        "Turn", on_delete=models.CASCADE, null=True, blank=True, related_name="attempts"
    )
    # The attempt from which an edit or a trial was made.
    source = models.ForeignKey("self", on_delete=models.CASCADE, null=True, blank=True)
    submission_key = models.CharField(max_length=SUBMISSION_KEY_CHAR_LIMIT)
    kind = models.CharField(max_length=8, choices=Kind, default=Kind.PROMPT)
    status = models.CharField(max_length=10, choices=Status, default=Status.RUNNING)
    # The member of the cast who acts; None where a narrator writes.
    actor = models.PositiveSmallIntegerField(null=True, blank=True)
    # The name of the agent who writes the attempt.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT, default=DEFAULT_AGENT)
    words = models.TextField()
    # The values of the fields of the mode's model `Mode.given`. They came with the prompt's words.
    given = models.JSONField(null=True, blank=True)
    # For a trial, the layer that was changed and the change; None for any other attempt.
    changed_layer = models.JSONField(null=True, blank=True)
    # The numbers of the members who can perceive the events. None means everybody of the cast at
    # the time of the commit.
    witnesses = models.JSONField(null=True, blank=True)
    # The text so far. It is from the latest run that has brought any text.
    partial_text = models.TextField(blank=True)
    # The id of the run that wrote `partial_text`. If the user keeps the text, this run's changes
    # count.
    text_run_id = models.UUIDField(null=True, blank=True)
    error = models.TextField(blank=True)
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
            models.Index(fields=["status", "lease_until"], name="attempt_lease"),
            # This index is for the pending attempt, because every page of a chapter asks for it.
            models.Index(fields=["session", "status"], name="attempt_pending"),
            models.Index(fields=["session", "submitted_at"], name="attempt_newest"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} to {self.actor or self.agent}: {self.status}"

    @property
    def is_running(self) -> bool:
        return self.status == self.Status.RUNNING

    @property
    def is_trial(self) -> bool:
        return self.kind == self.Kind.TRIAL

    @property
    def has_died(self) -> bool:
        """Whether the attempt's lease ran out. Its process then counts as dead."""
        return self.is_running and self.lease_until < timezone.now()

    @property
    def is_broken(self) -> bool:
        """Whether the attempt failed or was stopped. It then waits for the user's decision."""
        return self.status in self.BROKEN


class Turn(models.Model):
    """A numbered step of the story. It names the one attempt that the story goes by."""

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
    """Something that was said or shown in an attempt. The attempt's words are its first event.

    The transcript is made from the events of chosen attempts. It is never read back.
    """

    class Role(models.TextChoices):
        USER = "user"
        AGENT = "agent"
        SYSTEM = "system"

    event_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="events")
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="events")
    # The number of the attempt's turn. The next field is the event's place among the attempt's
    # events.
    prompt_index = models.PositiveIntegerField()
    position = models.PositiveSmallIntegerField()
    role = models.CharField(max_length=8, choices=Role)
    # SAID, THOUGHT, or a kind that the mode declares.
    kind = models.CharField(max_length=KIND_CHAR_LIMIT, default=SAID)
    # The number of the member of the cast who speaks.
    agent_slot = models.PositiveSmallIntegerField(null=True, blank=True)
    text = models.TextField()
    # Data that a page draws in addition to the text.
    shown = models.JSONField(null=True, blank=True)
    # The numbers of the members who could perceive the event. They are fixed when the event is
    # written.
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


class Change(AppendOnly):
    """A change of the world, by a run of an attempt or by an act of the user after the attempt.

    The world is folded from the initial state and the changes that count; see sessions.world.
    """

    change_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="changes")
    # This field has no index of its own, because the unique constraint's index begins with it.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, related_name="changes", db_index=False
    )
    # The id of the run that made the change; None for an act.
    run_id = models.UUIDField(null=True, blank=True)
    # The place among the run's changes. For an act, the place among the acts that followed the
    # attempt.
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT)
    # A JSON object. The kind of the change says which fields the object has.
    payload = models.JSONField(default=dict)
    # The name of the tool, the rule or the act that made the change.
    cause = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT, blank=True)
    # The id of the job whose late result the change takes.
    result = models.UUIDField(null=True, blank=True)
    # The number of the step that made the change; 0 before the first step.
    step = models.PositiveSmallIntegerField(default=0)
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
