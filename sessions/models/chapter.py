"""The tables of stories, of their chapters, and of the setup of a chapter."""

import uuid
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from django.db import models, transaction
from django.db.models import F, Q
from django.db.models.functions import Lower
from django.urls import reverse
from django.utils import timezone

from sessions.limits import (
    AGENT_NAME_CHAR_LIMIT,
    CHUNK_SIZE_PROMPTS,
    DEFAULT_TARGET_WORDS,
    LANGUAGE_TAG_CHAR_LIMIT,
    MAX_AGENTS,
    MAX_PEOPLE,
    MODE_CHAR_LIMIT,
    PRONOUNS_CHAR_LIMIT,
    PUBLIC_TEXT_CHAR_LIMIT,
    STARTER_CHAR_LIMIT,
    SUBMISSION_KEY_CHAR_LIMIT,
    TITLE_CHAR_LIMIT,
)
from sessions.models.chapter_states import PLAYABLE, State
from sessions.reply_lengths import ReplyLength
from sessions.roster import PRIVATE_TEXTS, PUBLIC_TEXTS, Character, character

if TYPE_CHECKING:
    from sessions.models.play import Change

UNTITLED = "Untitled chapter"
# The mode of a chapter that names no mode, and the agent that writes the attempts in this mode.
DEFAULT_MODE, DEFAULT_AGENT = "gamemaster", "character"
# The kinds of event that the engine itself knows. Only the thinker and the user know of a thought.
SAID, THOUGHT = "said", "thought"
# The kind of change that lets a person without a panel appear in play and join the cast. The
# payload has the public texts of the person, and the `number` that lists of witnesses use.
PERSON = "person"
# The lowest number of people who appear in play. Lower numbers belong to the slots and to the
# people of Tab 1.
FIRST_NUMBER_IN_PLAY = MAX_AGENTS + MAX_PEOPLE + 1


class Story(models.Model):
    """Chapters in their order. A chapter that was begun alone is the only one of its story."""

    story_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # "" as long as the story is called as its first chapter.
    title = models.CharField(max_length=TITLE_CHAR_LIMIT, blank=True)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    # The time at which the user put the story away, or None.
    archived_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        verbose_name_plural = "stories"
        indexes: ClassVar = [
            # Index for the order of the shelf by the time of beginning, and for the stories that
            # were put away.
            models.Index(F("created_at").desc(), "story_id", name="story_begun"),
            models.Index(
                fields=["archived_at"],
                condition=Q(archived_at__isnull=False),
                name="story_archived",
            ),
            # Index for the order of the shelf by titles, for stories with a title of their own.
            models.Index(Lower("title"), "story_id", condition=~Q(title=""), name="story_title"),
        ]

    def __str__(self) -> str:
        return self.title or f"Story {self.story_id}"


class Chapters(models.Manager["Session"]):
    """All chapters except unfinished and deleted ones. A chapter that is imported or forked is
    unfinished until its last row is stored. A deleted chapter can be brought back for a day."""

    def get_queryset(self) -> "models.QuerySet[Session]":
        return super().get_queryset().exclude(state=State.IMPORTING).filter(deleted_at=None)


class Session(models.Model):
    """A chapter, from its setup to its drafts: each row is one chapter, and never a whole story.

    Only sessions.chapter.states changes the `state`.
    """

    session_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    title = models.CharField(max_length=TITLE_CHAR_LIMIT, default=UNTITLED)
    story = models.ForeignKey(Story, on_delete=models.CASCADE, related_name="chapters")
    # The chapter's number in its story. A fork has the place of its origin. Of the chapters at one
    # place, only the chosen one is part of the story.
    place = models.PositiveIntegerField(default=1)
    is_chosen = models.BooleanField(default=True)
    # The time at which the user deleted the chapter, or None.
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The chapter before, which handed on its people and their memory to this chapter, or None.
    # `followed_state` says how the chapter before stood when its memory was handed on (see
    # memory.before.changes_before). It is None until then.
    follows = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", editable=False
    )
    followed_state = models.JSONField(null=True, blank=True, editable=False)
    # The name of the mode (see agents.modes.registry).
    mode = models.CharField(max_length=MODE_CHAR_LIMIT, default=DEFAULT_MODE)
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT_TAB1)
    # The name of the starter that the chapter was made from (see sessions.chapter.starters). It is
    # "" for any other chapter, and once the chapter is locked with a changed Tab 1.
    starter = models.CharField(max_length=STARTER_CHAR_LIMIT, blank=True, default="")
    prompt_index = models.PositiveIntegerField(default=0)
    last_summarized_prompt_index = models.PositiveIntegerField(default=0)
    tab1_locked = models.BooleanField(default=False)
    # The number of prompts that one summary covers.
    chunk_size_prompts = models.PositiveSmallIntegerField(default=CHUNK_SIZE_PROMPTS)
    # True if the user asked to end the chapter. It then ends as soon as memory is complete.
    is_ending = models.BooleanField(default=False)
    # The number of model calls for memory that the GM has accepted and that are still to be made.
    accepted_calls = models.PositiveIntegerField(default=0)
    # The id of the attempt in flight. A conditional UPDATE claims it.
    turn_in_flight = models.UUIDField(null=True, blank=True)
    # True if Tab 2 also shows the attempts that are not chosen.
    shows_all_replies = models.BooleanField(default=False)
    # True if Tab 2 also shows thoughts.
    shows_thoughts = models.BooleanField(default=False)
    # True if there is an event or a memory block that not everybody knows. Then each character's
    # request is composed separately.
    differs_by_reader = models.BooleanField(default=False)
    # Random numbers are drawn from this seed, the turn's number and a name (see
    # sessions.play.chance).
    seed = models.UUIDField(default=uuid.uuid4, editable=False)
    # The slot of the panel that Tab 2 shows.
    next_agent_slot = models.PositiveSmallIntegerField(default=1)
    # How long the characters' replies should be. The user may change it at any time.
    reply_length = models.CharField(max_length=6, choices=ReplyLength, default=ReplyLength.NORMAL)
    # The tag of the language that the user has set for the story, or "". The next field is the
    # language that was found first in the play, or "" as long as none was found. It counts only if
    # the user has set none.
    language = models.CharField(max_length=LANGUAGE_TAG_CHAR_LIMIT, blank=True, default="")
    found_language = models.CharField(max_length=LANGUAGE_TAG_CHAR_LIMIT, blank=True, default="")
    # The chapter's settings for its agents, by the keys of the agents: a model, and how it writes
    # (see agents.prompting.own_settings). Files of chapters do not have them.
    model_settings = models.JSONField(default=dict, blank=True)
    narrative_agent_definition_text = models.TextField(blank=True)
    target_words = models.PositiveIntegerField(default=DEFAULT_TARGET_WORDS)
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    updated_at = models.DateTimeField(auto_now=True)
    last_played_at = models.DateTimeField(default=timezone.now)
    # The time of the import, for a chapter from a file. All other times of such a chapter come from
    # the file.
    imported_at = models.DateTimeField(null=True, blank=True, editable=False)
    # The origin of a fork, or None if the origin was deleted. `origin_title` is the origin's title
    # when it was forked. `forked_at_prompt` is the last turn that the fork has from its origin.
    # `fork_key` is the key of the form that asked for the fork.
    origin = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="forks"
    )
    origin_title = models.CharField(max_length=TITLE_CHAR_LIMIT, blank=True)
    forked_at_prompt = models.PositiveIntegerField(default=0)
    fork_key = models.CharField(max_length=SUBMISSION_KEY_CHAR_LIMIT, blank=True)
    # For a fork, the tokens that its origin had used of each model when it was forked. They never
    # change (see agents.calling.spending).
    inherited_usage = models.JSONField(default=dict, blank=True)

    objects = Chapters()
    everything = models.Manager["Session"]()

    class Meta:
        ordering = ["-last_played_at"]
        verbose_name = "chapter"
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["origin", "fork_key"], name="one_fork_per_submission"),
            models.UniqueConstraint(
                fields=["story", "place"],
                condition=Q(is_chosen=True, deleted_at=None),
                name="one_chosen_chapter_per_place",
            ),
        ]
        indexes: ClassVar = [
            # The shelf reads chapters by this index, from the one that was played last. It has the
            # state, so that a list is counted by the index alone.
            models.Index(
                F("last_played_at").desc(),
                "story",
                "state",
                condition=Q(deleted_at=None),
                name="chapter_played_last",
            ),
            # The shelf counts by this index, and the sweep finds the few chapters that wait for a
            # summary or that are being imported.
            models.Index(fields=["state", "story"], name="chapter_by_state"),
            models.Index(
                fields=["deleted_at"], condition=Q(deleted_at__isnull=False), name="chapter_deleted"
            ),
            # Index for the order of the shelf by titles, for stories that are called as their first
            # chapter. Its condition is true of every row, but only a query that repeats the
            # condition uses the index. Otherwise SQLite would use the index for other queries too,
            # and read all chapters row after row.
            models.Index(
                Lower("title"),
                "story",
                condition=Q(deleted_at=None, place__gte=0),
                name="chapter_title",
            ),
            # Indexes for the order of the shelf by length: the chapters at the first place of a
            # story, the later chapters, whose lengths are added, and the chapters that do not
            # count.
            models.Index(
                F("prompt_index").desc(),
                "story",
                condition=Q(is_chosen=True, deleted_at=None, place__lte=1),
                name="chapter_length",
            ),
            models.Index(
                fields=["story", "prompt_index"],
                condition=Q(is_chosen=True, deleted_at=None, place__gt=1),
                name="chapter_later",
            ),
            models.Index(
                fields=["story"],
                condition=Q(is_chosen=False, deleted_at=None),
                name="chapter_not_chosen",
            ),
        ]

    def __str__(self) -> str:
        return self.title

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Store the chapter. A new chapter without a story becomes the only chapter of a new
        story."""
        if not self._state.adding or getattr(self, "story", None):
            super().save(*args, **kwargs)
            return
        with transaction.atomic():
            self.story = Story.objects.create(created_at=self.created_at)
            super().save(*args, **kwargs)

    def get_absolute_url(self) -> str:
        return reverse("pages:chapter", args=[self.session_id])

    @property
    def is_untitled(self) -> bool:
        return self.title == UNTITLED

    @property
    def told_language(self) -> str:
        """The tag of the language that the story is told in, or "" if it is not known yet."""
        return self.language or self.found_language

    @property
    def is_fork(self) -> bool:
        return self.forked_at_prompt > 0

    @property
    def shown_origin_id(self) -> uuid.UUID | None:
        """The id of the chapter that this fork was made from, or None if that chapter was
        deleted."""
        return None if self.origin is None or self.origin.deleted_at else self.origin.pk

    @cached_property
    def cast(self) -> tuple["CastMember", ...]:
        """All members of the cast, also deselected characters. Characters come first, by slot, and
        then people without a panel."""
        return tuple(self.members.all())

    @cached_property
    def everybody(self) -> tuple[Character, ...]:
        """The members who take part from the first turn on. Characters come first, by slot, and
        then people without a panel.

        People who appeared in play are not included (see
        `sessions.play.played_world.everybody_at`).
        """
        return tuple(one for one, member in self.numbered_cast if member.is_selected)

    @cached_property
    def characters(self) -> list[Character]:
        """The selected characters of this chapter, in slot order."""
        return [one for one in self.everybody if one.slot]

    @cached_property
    def numbered_cast(self) -> list[tuple[Character, "CastMember"]]:
        """Each member of the cast with a number. The number of a character is its slot. People
        without a panel get the numbers above the slots."""
        people = count(MAX_AGENTS + 1)
        return [(one.as_character(one.slot or next(people)), one) for one in self.cast]

    @property
    def everybodys_numbers(self) -> list[int]:
        """The numbers of `everybody`, in ascending order. Lists of witnesses use these numbers."""
        return [one.number for one in self.everybody]

    @property
    def selected_agent_slots(self) -> list[int]:
        return [one.slot for one in self.characters]

    @property
    def agent_names(self) -> dict[str, str]:
        """The names of the selected characters by slot. The slots are strings, because JSON has no
        other keys."""
        return {str(one.slot): one.name for one in self.characters}

    def agent_texts(self, field: str) -> dict[str, str]:
        """Return the values of a text field of `CastMember` by slot, without the empty ones.

        The slots are strings. Deselected characters are included.
        """
        texts = {one.slot: getattr(one, field) for one in self.cast if one.slot}
        return {str(slot): text for slot, text in texts.items() if text}

    def private_text(self, slot: int | None) -> str:
        """Return the private texts of a character as its own requests tell them."""
        told = (one.as_told(self.agent_texts(one.name).get(str(slot), "")) for one in PRIVATE_TEXTS)
        return "\n\n".join(text.strip() for text in told if text)

    def character(self, number: int) -> Character:
        """Return the member of the cast with this number, even if the member is not selected."""
        known = self._characters_by_number
        if number not in known and number >= FIRST_NUMBER_IN_PLAY:
            # Pages also show attempts that are not chosen, so people who appeared in such attempts
            # are included.
            known.update((one["number"], character(**one)) for one in self.people_in_play())
        return known.get(number) or character(number)

    def people_in_play(self) -> "models.QuerySet[Change, dict[str, Any]]":
        """Return the payload of each person who appeared in a run that is committed or may still be
        committed.

        A person who appears in two attempts may be returned twice, with the same number.
        """
        of_run = Q(run_id=None) | Q(run_id=F("attempt__run_id"))
        people = self.changes.filter(of_run | Q(run_id=F("attempt__text_run_id")), kind=PERSON)
        set_aside = self.attempts.model.Status.SET_ASIDE
        may_count = people.exclude(attempt__status=set_aside)
        return may_count.values_list("payload", flat=True)

    @cached_property
    def _characters_by_number(self) -> dict[int, Character]:
        return {one.number: one for one, _ in self.numbered_cast}

    def forget_cast(self) -> None:
        """Forget the cast that was read, so that the next use reads it from the database."""
        for name in (
            *("cast", "everybody", "characters", "numbered_cast", "_characters_by_number"),
        ):
            self.__dict__.pop(name, None)

    def refresh_from_db(self, *args: Any, **kwargs: Any) -> None:
        self.forget_cast()
        super().refresh_from_db(*args, **kwargs)

    @property
    def is_playable(self) -> bool:
        return self.state in PLAYABLE and not self.is_ending


class Tab1Inputs(models.Model):
    """The texts of Tab 1. `sessions.chapter.chapters.is_setup_open` says whether they can be
    changed."""

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="tab1"
    )
    world_text = models.TextField(blank=True)
    chapter_text = models.TextField(blank=True)
    # The values of the fields that the mode adds to Tab 1 (`Setup.fields`). The object is empty
    # until the fields are saved.
    mode_setup = models.JSONField(default=dict, blank=True)
    # The part of the world of the chapter before that the mode handed on, or an empty object.
    handed_on = models.JSONField(default=dict, blank=True)
    saved_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = verbose_name_plural = "Tab 1 inputs"

    def __str__(self) -> str:
        return f"Tab 1 of {self.session_id}"


class CastMember(models.Model):
    """A character with a panel, or a person without one. The row can be changed as long as Tab 1
    can be changed."""

    member_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="members")
    # The same person in the chapter before, whose memory this member has.
    origin = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+", editable=False
    )
    # The number of the character's panel; None for a person.
    slot = models.PositiveSmallIntegerField(null=True, blank=True)
    # False if the character takes no part. The character's texts are kept.
    is_selected = models.BooleanField(default=True)
    # The texts that sessions.roster declares. If the name is empty, the character has the default
    # name of its slot.
    name = models.CharField(max_length=AGENT_NAME_CHAR_LIMIT, blank=True)
    pronouns = models.CharField(max_length=PRONOUNS_CHAR_LIMIT, blank=True)
    public_text = models.CharField(max_length=PUBLIC_TEXT_CHAR_LIMIT, blank=True)
    identity_text = models.TextField(blank=True)

    class Meta:
        ordering: ClassVar = [models.F("slot").asc(nulls_last=True), "member_id"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "slot"], name="one_member_per_slot"),
        ]

    def __str__(self) -> str:
        return self.as_character(self.slot or 0).name

    def as_character(self, number: int) -> Character:
        return character(number, **{one.name: getattr(self, one.name) for one in PUBLIC_TEXTS})
