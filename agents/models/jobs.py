"""The tables of background jobs and of the processes that run them."""

import uuid
from typing import ClassVar

from django.db import models
from django.utils import timezone

from memory.blocks.stretches import Stretch
from sessions.limits import CHANGE_NAME_CHAR_LIMIT, KIND_CHAR_LIMIT
from sessions.models import Attempt, Session


class Job(models.Model):
    """Work in the background.

    The row of a job decides what is done, and the broker only gives notice of the job. Repeated
    requests have the same `key`, so they make only one job. A worker claims the job by a
    conditional UPDATE, which gives it a lease and a token. The worker may write for the job only
    while the row has this token.
    """

    class Kind(models.TextChoices):
        LOCK = "lock"
        SUMMARIZE = "summarize"
        NARRATE = "narrate"
        # The kind of job that writes an attempt without a prompt.
        GO_ON = "go_on"
        # A late result that a summary has brought. A job of this kind is already done when it is
        # stored.
        MEMORY_RESULT = "memory_result"

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        DONE = "done"
        FAILED = "failed"
        CANCELLED = "cancelled"
        # The state of a late result that no run can take. `error` says why.
        VOID = "void"

    class Queue(models.TextChoices):
        """The classes of work, the most urgent first. A class says who waits for the work. The
        broker has a queue of this name for each class."""

        # A person waits for this work.
        PERSON = "person"
        # Nobody waits for this work yet.
        MEMORY = "memory"
        # A narration of a whole chapter.
        LONG = "long"

    job_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="jobs")
    # One of the kinds above, or a kind of job that a mode declares.
    kind = models.CharField(max_length=KIND_CHAR_LIMIT)
    key = models.CharField(max_length=100)
    status = models.CharField(max_length=10, choices=Status, default=Status.QUEUED)
    queue = models.CharField(max_length=10, choices=Queue, default=Queue.MEMORY)
    # The attempt that the job belongs to. For a summary or a narration, this is the attempt at the
    # last turn that the job tells. For a late result, it is the attempt that asked for the result,
    # or the attempt at the end of the summary's stretch. For a job GO_ON, somebody acts after this
    # attempt.
    attempt = models.ForeignKey(
        Attempt, on_delete=models.CASCADE, null=True, blank=True, related_name="jobs"
    )
    # A summary has the first and the last turn of its stretch here. A job for a late result has
    # the turn of the attempt that asked for the result in both fields.
    from_prompt_index = models.PositiveIntegerField(default=0)
    to_prompt_index = models.PositiveIntegerField(default=0)
    attempts = models.PositiveSmallIntegerField(default=0)
    run_after = models.DateTimeField(default=timezone.now)
    lease_token = models.UUIDField(null=True, blank=True)
    lease_until = models.DateTimeField(null=True, blank=True)
    # The message of the latest try's error. The GM sees the message while the job waits for another
    # try, and after the last try.
    error = models.TextField(blank=True)
    # The words of the server or the model about this error. `error` has only words of the program.
    server_said = models.TextField(blank=True, default="")
    # The kind of the refusal, such as "budget-spent". "" unless the engine refused a call.
    refusal = models.CharField(max_length=40, blank=True)
    # The name of the error's class, such as "ProviderBusy".
    failure = models.CharField(max_length=40, blank=True, default="")
    # A summary that failed while the chapter was ending has the number of the chapter's last prompt
    # here, so that a page can say so and end the chapter by Retry.
    end_asked_at_prompt = models.PositiveIntegerField(null=True, blank=True)
    # The progress that a page shows: {"words": int, "target_words": int, "scene": int, "scenes":
    # int}.
    progress = models.JSONField(default=dict, blank=True)
    # The scenes of a narration, each as {"first": int, "last": int, "target_words": int}.
    scenes = models.JSONField(default=list, blank=True)
    # The texts of the finished scenes, which a resumed narration does not write again.
    finished_scenes = models.JSONField(default=list, blank=True)
    # The finished deltas, one for each call: {"audience": [int, ...], "told_until": int,
    # "payload": {...}, "finished_at": str}, and "added": {...} if the mode adds keys. A summary
    # that is resumed does not write these deltas again.
    finished_deltas = models.JSONField(default=list, blank=True)
    # The kind of change that a late result becomes. "" if the job has no late result.
    result_kind = models.CharField(max_length=CHANGE_NAME_CHAR_LIMIT, blank=True, default="")
    # The late result, a JSON object. None until it is worked out.
    result = models.JSONField(null=True, blank=True)
    # The text so far. A page shows it while it grows.
    partial_text = models.TextField(blank=True)
    # The inputs of a narration. A later build with the same inputs can continue this narration.
    inputs = models.JSONField(default=dict, blank=True)
    # The id of the request that asked for the job, for the log.
    request_id = models.CharField(max_length=64, blank=True, default="")
    created_at = models.DateTimeField(default=timezone.now)
    updated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["created_at"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["session", "kind", "key"], name="one_job_per_key"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["status", "queue", "run_after"], name="job_due_in_queue"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.key}: {self.status}"

    @property
    def stretch(self) -> Stretch:
        """The stretch that a summary tells. Other kinds of job have no stretch."""
        return Stretch(self.from_prompt_index, self.to_prompt_index)

    @property
    def is_live(self) -> bool:
        return self.status in (self.Status.QUEUED, self.Status.RUNNING)


class ProcessHeartbeat(models.Model):
    """The last heartbeat of a worker, or of a web process on a database server, and its counts.
    Each process's name has one row."""

    class Role(models.TextChoices):
        WEB = "web"
        WORKER = "worker"

    name = models.CharField(max_length=200, primary_key=True)
    role = models.CharField(max_length=10, choices=Role, default=Role.WORKER)
    beat_at = models.DateTimeField(default=timezone.now)
    # The counts of the process's present run, by family; see storyengine.operations.exposition.
    counts = models.JSONField(default=dict)
    # A few digits that let processes notice that they have different keys (see
    # storyengine.operations.checks.process_checks). They never show a key.
    key_fingerprint = models.CharField(max_length=16, blank=True, default="")
    # The process may open at most this many connections to the database.
    most_connections = models.PositiveIntegerField(default=0)

    def __str__(self) -> str:
        return self.name


class SweepLease(models.Model):
    """The lease of the worker that sweeps for all workers, in one row."""

    name = models.CharField(max_length=20, primary_key=True, default="sweep")
    holder = models.CharField(max_length=200)
    lease_until = models.DateTimeField()

    def __str__(self) -> str:
        return self.holder
