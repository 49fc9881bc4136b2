"""The tables of memory: the memory blocks, the drafts, and the working copies of drafts."""

import uuid
from functools import cached_property
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils import timezone

from sessions.append_only import AppendOnly
from sessions.language.languages import find_language
from sessions.language.words import count_words
from sessions.limits import KIND_CHAR_LIMIT
from sessions.models import Attempt, Session


class MemoryBlock(AppendOnly):
    """A piece of memory with a structured payload, written by an agent or a mode, or ruled by the
    Game Master.

    The deltas that count cover the prompts without gap or overlap. Rulings cover no prompts.
    """

    class Type(models.TextChoices):
        """The engine's own kinds of block. Modes declare other kinds (see
        memory.telling.block_kinds)."""

        WORLD_CHAPTER_LOCK = "world_chapter_lock"
        TURN_DELTA = "turn_delta"
        CANON_CORRECTION = "canon_correction"
        STORY_SO_FAR = "story_so_far"

    block_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="memory_blocks")
    type = models.CharField(max_length=KIND_CHAR_LIMIT)
    # The attempt at the block's last turn. The block counts while this attempt is chosen. The lock
    # and rulings have no attempt here, and always count.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="memory_blocks"
    )
    from_prompt_index = models.PositiveIntegerField()
    to_prompt_index = models.PositiveIntegerField()
    # For a delta, the number of the last prompt whose events it tells. The deltas of a stretch are
    # read in this order. The order is imperfect, because a delta counts as one moment: a delta that
    # tells prompts 1 and 7 comes as a whole after a delta that tells prompt 4. None stands for
    # `to_prompt_index`, for example in the lock and in an imported delta that has no events left.
    told_until = models.PositiveIntegerField(null=True, blank=True)
    # The numbers of the characters who know the block, in ascending order: the witnesses of
    # everything that a delta tells, or the readers of a ruling. A block that everybody knows lists
    # everybody, so that people who join the cast later do not know it. Only the lock has None:
    # everybody knows it, also people who join later.
    audience = models.JSONField(null=True, blank=True)
    json_payload = models.JSONField()
    # True if the block came with a starter. People wrote it, and no model was called.
    came_with_starter = models.BooleanField(default=False)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["session"],
                condition=Q(type="world_chapter_lock"),
                name="one_lock_per_chapter",
            ),
            models.UniqueConstraint(
                fields=["attempt", "from_prompt_index", "audience"],
                condition=Q(type="turn_delta"),
                name="one_delta_per_audience",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.type} {self.from_prompt_index}-{self.to_prompt_index}"


class NarrativeDraft(AppendOnly):
    """The narrative of a chapter as agent 9 told it, or as the user has edited an earlier draft.
    The row names the last prompt and the memory blocks that the narrative tells."""

    draft_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="narrative_drafts")
    # The draft that the user edited, or the one whose scene the narrator wrote again. None if the
    # draft has no origin.
    origin = models.ForeignKey(
        "self", on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    # True if the user edited this draft in a working copy.
    is_edited = models.BooleanField(default=False)
    # Of an edited draft, the receipts of the paragraphs that stayed as they were, in order, each as
    # {"paragraph": int, "prompts": [int, ...], "confidence": str}. The first paragraph has the
    # number 1. The receipts of the other paragraphs are worked out when somebody asks.
    kept_receipts = models.JSONField(default=list, blank=True)
    # The job that wrote the draft, and the attempt at the last turn that the draft tells. An
    # imported draft and an edited one have no job. An imported draft has no attempt if its file
    # names none.
    job_id = models.UUIDField(null=True, blank=True)
    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, null=True, blank=True)
    narrative_agent_definition_text = models.TextField(blank=True)
    target_words = models.PositiveIntegerField()
    # A JSON object: {"max_prompt_index_used": int, "memory_block_ids_used": [str, ...]}.
    source_snapshot = models.JSONField()
    chapter_text = models.TextField()
    # The scenes of the draft in order, each as {"first": int, "last": int, "target_words": int,
    # "start": int, "job_id": str or None}: the first and the last prompt that the scene tells, the
    # place in `chapter_text` where its text begins, and the job that wrote it. The list is empty if
    # the scenes were not recorded, as in some files. The attempts that a scene tells need no
    # record: those at earlier turns are fixed, and `attempt` names the one at the last turn.
    scenes = models.JSONField(default=list, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created_at"]

    def __str__(self) -> str:
        return f"Draft of {self.created_at:%Y-%m-%d %H:%M}"

    @cached_property
    def language(self) -> str:
        """The tag of the language of the prose, or "" if it is not known. A narrator may tell a
        chapter in another language than the one it was played in."""
        of_chapter = self.session
        found = of_chapter.language or find_language([self.chapter_text])
        return found or of_chapter.found_language

    @property
    def word_count(self) -> int:
        return count_words(self.chapter_text)


class WorkingCopy(models.Model):
    """The text of a draft that the user is editing. It is saved while the user types, and becomes
    another draft when the user keeps it."""

    draft = models.OneToOneField(
        NarrativeDraft, on_delete=models.CASCADE, primary_key=True, related_name="working_copy"
    )
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="working_copies")
    text = models.TextField()
    saved_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["saved_at"]
        verbose_name_plural = "working copies"

    def __str__(self) -> str:
        return f"Working copy of {self.draft_id}"


class DraftChoice(models.Model):
    """The draft that stands for a chapter in its story. Without this row, the newest draft does."""

    session = models.OneToOneField(
        Session, on_delete=models.CASCADE, primary_key=True, related_name="draft_choice"
    )
    draft = models.ForeignKey(NarrativeDraft, on_delete=models.CASCADE, related_name="+")
    chosen_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"Chosen draft of {self.session_id}"
