"""The record of model calls, the jobs that run in the background, and who may be called."""

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone

from memory.stretches import Stretch
from sessions.append_only import AppendOnly
from sessions.limits import AGENT_CHAR_LIMIT, CHANGE_NAME_CHAR_LIMIT
from sessions.models import Attempt, Session


class LLMArtifact(AppendOnly):
    """Provenance of one model call, also of one that failed."""

    artifact_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="llm_artifacts")
    # What it was made for; neither, where a prompt was only read ahead.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.SET_NULL, null=True, blank=True, related_name="llm_artifacts"
    )
    job = models.ForeignKey(
        "Job", on_delete=models.SET_NULL, null=True, blank=True, related_name="llm_artifacts"
    )
    # Of an agent that calls tools: which of the calls of the model for one reply this was.
    step = models.PositiveSmallIntegerField(default=1)
    # Its name; and the number of those that the specification numbers.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT)
    agent_id = models.PositiveSmallIntegerField(null=True, blank=True)
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    input_hash = models.CharField(max_length=64, help_text="SHA-256 of the messages sent")
    # {"input": int, "output": int, "cached": int} as the provider reports them; {} if it did not,
    # or reported what cannot be.
    token_counts = models.JSONField(default=dict)
    # Tokens that a call which reported none may be charged for; 0 where it did, and where it never
    # came so far as to cost anything.
    estimated_input = models.PositiveIntegerField(default=0)
    estimated_output = models.PositiveIntegerField(default=0)
    # The prompt in order: of each layer its name, its role, the hashes of its texts, and what the
    # assembler kept, shortened or dropped of it; see agents.calling.stored_prompts.
    layers = models.JSONField(default=list)
    raw_output_ref = models.TextField(blank=True, help_text="The reply as it came")
    tool_calls = models.JSONField(
        default=list, blank=True, help_text="The server's own tool calls in the reply"
    )
    error = models.TextField(blank=True)
    first_token_ms = models.PositiveIntegerField(null=True, blank=True)
    duration_ms = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["-created_at"]
        verbose_name = "LLM artifact"
        indexes: ClassVar = [
            models.Index(fields=["created_at"], name="artifact_created"),
            # All that the sum of a chapter's tokens needs, which is asked for before each call:
            # the rows themselves are long, and those that were added last stand behind the prompt.
            models.Index(
                fields=["session", "model", "token_counts", "estimated_input", "estimated_output"],
                name="artifact_spending",
            ),
        ]

    def __str__(self) -> str:
        return f"Agent {self.agent if self.agent_id is None else self.agent_id} on {self.model}"


class PromptText(AppendOnly):
    """A text of prompts, stored once a chapter however many of its prompts have it."""

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
    """A call that was let through: what the caps on calls in a minute count.

    It outlives its chapter by some minutes, so that deleting one forgives nothing.
    """

    session_id = models.UUIDField()
    admitted_at = models.DateTimeField(default=timezone.now)

    class Meta:
        indexes: ClassVar = [
            # Both counts from the index alone.
            models.Index(fields=["admitted_at", "session_id"], name="admitted_call_counted"),
        ]

    def __str__(self) -> str:
        return f"{self.admitted_at:%H:%M:%S}, chapter {self.session_id}"


class Job(models.Model):
    """Work in the background. The row is the truth; the broker only says that it is there.

    `key` makes it one job however often it is asked for. A worker claims it by a conditional
    UPDATE, gets a lease and a token, and may write only while both are its own.
    """

    class Kind(models.TextChoices):
        LOCK = "lock"
        SUMMARIZE = "summarize"
        NARRATE = "narrate"

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"

    job_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="jobs")
    # One of these, or what a way to play calls its own.
    kind = models.CharField(max_length=40)
    key = models.CharField(max_length=100)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    # Of a summary or a narration, the attempt at the last turn that it tells; of a job with a late
    # result, the attempt that asked for it.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="jobs"
    )
    # Of a summary, the first and the last turn of its stretch; of a late result, twice the turn of
    # the attempt that asked for it.
    from_prompt_index = models.PositiveIntegerField(default=0)
    to_prompt_index = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    run_after = models.DateTimeField(default=timezone.now)
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    # Shown to the GM while the job waits for another try, or after the last one.
    error = models.TextField(blank=True)
    # The kind of the error where the engine itself refused a call, such as "budget-spent".
    refusal = models.CharField(max_length=40, blank=True)
    # What a page shows: {"words": int, "target_words": int, "scene": int, "scenes": int}
    progress = models.JSONField(default=dict, blank=True)
    # How a narration divides the chapter: {"first": int, "last": int, "target_words": int} a scene.
    scenes = models.JSONField(default=list, blank=True)
    # What a resumed narration starts from: the texts of the first of those scenes.
    finished_scenes = models.JSONField(default=list, blank=True)
    # What a resumed summary starts from, one for each call that is made:
    # {"audience": [int, ...], "payload": {...}, "finished_at": str}
    finished_deltas = models.JSONField(default=list, blank=True)
    # The kind of change that its result becomes when a run takes it, where it has a late result.
    result_kind = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT, blank=True, default="")
    # That result, an object, once the job is done.
    result = models.JSONField(null=True, blank=True)
    # The text so far, for the page that watches it grow.
    partial_text = models.TextField(blank=True)
    # What a narration was asked to write from, so that equal inputs can be resumed.
    inputs = models.JSONField(default=dict, blank=True)
    # Of the request that asked for it, for the log.
    request_id = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "kind", "key"], name="one_job_per_key"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["status", "run_after"], name="job_due"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.status}"

    @property
    def stretch(self) -> Stretch:
        """Of a summary, the prompts that it tells."""
        return Stretch(self.from_prompt_index, self.to_prompt_index)

    @property
    def is_live(self) -> bool:
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)


class WorkerHeartbeat(models.Model):
    """A worker is alive, and what it has counted: one row for each name of a worker."""

    name = models.CharField(max_length=200, primary_key=True)
    beat_at = models.DateTimeField(default=timezone.now)
    # Of this run of it, by family; see storyengine.operations.counts.
    counts = models.JSONField(default=dict)

    def __str__(self) -> str:
        return self.name


class ProviderConsent(models.Model):
    """The GM allowed texts to be sent to this host; withdrawn by deleting the row."""

    host = models.CharField(max_length=253, primary_key=True)
    granted_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.host


class EmbeddedServer(models.Model):
    """How far the embedded model is: one row, written by the process that runs it."""

    class Phase(models.TextChoices):
        FETCHING = "fetching"
        LOADING = "loading"
        READY = "ready"
        FAILED = "failed"

    name = models.CharField(max_length=20, primary_key=True, default="default")
    phase = models.CharField(max_length=10, choices=Phase)
    model = models.CharField(max_length=200)
    base_url = models.CharField(max_length=200, blank=True)
    context_window = models.PositiveIntegerField(default=0)
    bytes_done = models.BigIntegerField(default=0)
    bytes_total = models.BigIntegerField(default=0)
    message = models.TextField(blank=True)
    # Renewed every few seconds; an old time means that the process is gone.
    alive_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return f"{self.model}: {self.phase}"


class TokenCalibration(models.Model):
    """How many tokens a model counts for an agent's prompts, learnt from the usage it reports."""

    model = models.CharField(max_length=200)
    # A character's prompt, a summary of JSON and a transcript are tokenised differently.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT)
    # Sums over the latest calls: weighted characters sent (see agents.prompting.budget), and
    # their tokens.
    weight = models.FloatField(default=0)
    tokens = models.FloatField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "agent"], name="one_calibration_per_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.agent}"


class ReportedWindow(models.Model):
    """What a server said of the context window of one of its models."""

    LONGEST = 200

    server = models.CharField(max_length=LONGEST, help_text="Its address")
    model = models.CharField(max_length=LONGEST)
    # Empty: it says nothing of this model.
    tokens = models.PositiveIntegerField(null=True, blank=True)
    is_ceiling = models.BooleanField(
        default=False, help_text="The most the model can take; the server may run it with less"
    )
    asked_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["server", "model"], name="one_window_per_model"),
        ]

    def __str__(self) -> str:
        return self.model
