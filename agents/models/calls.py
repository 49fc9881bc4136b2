"""The tables of model calls: their records, their texts, and what they spend."""

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone

from sessions.append_only import AppendOnly
from sessions.limits import AGENT_CHAR_LIMIT
from sessions.models import Attempt, Session


class LLMArtifact(AppendOnly):
    """The record of one model call, even of a call that failed."""

    artifact_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="llm_artifacts")
    # The attempt or the job that the call was made for. A warm-up has no attempt and no job.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.SET_NULL, null=True, blank=True, related_name="llm_artifacts"
    )
    job = models.ForeignKey(
        "Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="llm_artifacts"
    )
    # The number of the call within the reply. It is above 1 only for an agent with tools.
    step = models.PositiveSmallIntegerField(default=1)
    # The agent's name, and its number if the specification gives one.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT)
    agent_id = models.PositiveSmallIntegerField(null=True, blank=True)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    input_hash = models.CharField(max_length=64, help_text="SHA-256 of the messages sent")
    # The tokens that the provider reported: {"input": int, "output": int, "cached": int}. The field
    # is {} if the provider reported no tokens, or numbers that cannot be true. {"too_few": int} is
    # the reported input of a server that cut the request, or that counted only a part of it.
    token_counts = models.JSONField(default=dict)
    # The estimated tokens of a call that may cost something although its tokens were not reported.
    # For any other call both fields are 0.
    estimated_input = models.PositiveIntegerField(default=0)
    estimated_output = models.PositiveIntegerField(default=0)
    # How the model was asked to write: `max_output_tokens`, and `temperature`, `top_p` and `stop`
    # if they were sent.
    sent_options = models.JSONField(default=dict, blank=True)
    # The layers of the request in order. A layer has a name, a role, the hashes of its texts, and
    # the numbers of its pieces that were kept, shortened or dropped; see
    # agents.calling.records.stored_prompts.
    layers = models.JSONField(default=list)
    raw_output_ref = models.TextField(blank=True, help_text="The reply as it was read")
    taken_off = models.TextField(
        blank=True,
        default="",
        help_text="What was taken off the answer: hidden reasoning and marks of chat templates",
    )
    tool_calls = models.JSONField(
        default=list, blank=True, help_text="The server's own tool calls in the reply"
    )
    # Why the call failed: in the program's words, and in the words of the server or the model.
    error = models.TextField(blank=True)
    server_said = models.TextField(blank=True, default="")
    first_token_ms = models.PositiveIntegerField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at"]
        verbose_name = "LLM artifact"
        indexes: ClassVar = [
            models.Index(fields=["created_at"], name="artifact_created"),
        ]

    def __str__(self) -> str:
        return f"Agent {self.agent if self.agent_id is None else self.agent_id} on {self.model}"


class SpentTokens(models.Model):
    """The tokens that all calls of a chapter to one model of one server have used. The row is the
    sum over the artifacts of the calls, so that a check of a cap need not read the artifacts."""

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="spent_tokens", db_index=False
    )
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    # The tokens that providers reported. The cached tokens are also counted among the tokens that
    # were read.
    read = models.BigIntegerField(default=0)
    cached = models.BigIntegerField(default=0)
    written = models.BigIntegerField(default=0)
    # The estimates for calls without a report.
    guessed_read = models.BigIntegerField(default=0)
    guessed_written = models.BigIntegerField(default=0)

    class Meta:
        verbose_name_plural = "spent tokens"
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["session", "provider", "model"], name="one_sum_per_model"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.model}: {self.read + self.written} tokens"


class PromptText(AppendOnly):
    """A text of the chapter's requests. It is stored once, however many requests contain it."""

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="prompt_texts", db_index=False
    )
    hash = models.CharField(max_length=20, help_text="As the layers of artifacts name it")
    text = models.TextField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "hash"], name="one_text_per_hash"),
        ]

    def __str__(self) -> str:
        return self.hash


class AdmittedCall(models.Model):
    """A call that was allowed. The caps on calls in a minute count these rows. The caps on spending
    count the tokens that the rows have reserved.

    A row is kept for some minutes after its chapter was deleted, so that a deletion does not reset
    the count.
    """

    session_id = models.UUIDField()
    admitted_at = models.DateTimeField(default=timezone.now)
    provider = models.CharField(max_length=40, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    # The call is expected to use at most this many tokens.
    reserved_read = models.PositiveIntegerField(default=0)
    reserved_written = models.PositiveIntegerField(default=0)
    # The time until which the tokens are reserved. None once the call is recorded.
    reserved_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        indexes: ClassVar = [
            # The count for all chapters and the count for one chapter use only this index.
            models.Index(fields=["admitted_at", "session_id"], name="admitted_call_counted"),
            models.Index(
                fields=["session_id"],
                condition=models.Q(reserved_until__isnull=False),
                name="admitted_call_reserved",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.admitted_at:%H:%M:%S}, chapter {self.session_id}"


class ModelTest(models.Model):
    """The record of one test of a model on the page Models, even of one that failed. The tests of a
    day may cost as much as a chapter may."""

    # The chapter whose model was tested. None for a test of the model for all chapters.
    session = models.ForeignKey(
        Session, on_delete=models.SET_NULL, null=True, blank=True, related_name="+"
    )
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    # The tokens as in the records of calls.
    token_counts = models.JSONField(default=dict)
    estimated_input = models.PositiveIntegerField(default=0)
    estimated_output = models.PositiveIntegerField(default=0)
    error = models.TextField(blank=True)
    server_said = models.TextField(blank=True, default="")
    duration_ms = models.PositiveIntegerField(default=0)
    tested_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ["-tested_at"]

    def __str__(self) -> str:
        return f"{self.agent} on {self.model}"
