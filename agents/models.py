"""The tables of model calls and background jobs, and the table of hosts that may be called."""

import uuid
from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.utils import timezone

from memory.stretches import Stretch
from sessions.append_only import AppendOnly
from sessions.limits import AGENT_CHAR_LIMIT, CHANGE_NAME_CHAR_LIMIT, KIND_CHAR_LIMIT
from sessions.models import Attempt, Session


class LLMArtifact(AppendOnly):
    """The record of one model call, even of a call that failed."""

    artifact_id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    session = models.ForeignKey(Session, on_delete=models.CASCADE, related_name="llm_artifacts")
    # The attempt or the job for which the call was made. A warm-up has no attempt and no job.
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
    # is {} if the provider reported no tokens, or numbers that cannot be true.
    token_counts = models.JSONField(default=dict)
    # The estimated tokens of a call that may cost something although its tokens were not reported.
    # For any other call both fields are 0.
    estimated_input = models.PositiveIntegerField(default=0)
    estimated_output = models.PositiveIntegerField(default=0)
    # How the model was asked to write: `max_output_tokens`, and `temperature`, `top_p` and `stop`
    # if they were sent. The field is {} for a call of an older program.
    sent_options = models.JSONField(default=dict, blank=True)
    # The layers of the request in order. A layer has a name, a role, the hashes of its texts, and
    # the numbers of its pieces that were kept, shortened or dropped; see
    # agents.calling.stored_prompts.
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
        ]

    def __str__(self) -> str:
        return f"Agent {self.agent if self.agent_id is None else self.agent_id} on {self.model}"


class SpentTokens(models.Model):
    """The tokens that all calls of a chapter to one model of one server have used. The row is the
    sum over the artifacts of the calls, so that a cap need not read them."""

    session = models.ForeignKey(
        Session, on_delete=models.CASCADE, related_name="spent_tokens", db_index=False
    )
    provider = models.CharField(max_length=40)
    model = models.CharField(max_length=200)
    # The tokens that providers reported. The cached tokens are part of those that were read.
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
    """A text that requests have. A chapter stores it once, however many requests have it."""

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
    """A call that was allowed. The caps on calls in a minute count these rows, and the caps on
    spending count what the calls that are being made have reserved.

    A row stays for some minutes after its chapter was deleted, so that a deletion does not reset
    the count.
    """

    session_id = models.UUIDField()
    admitted_at = models.DateTimeField(default=timezone.now)
    provider = models.CharField(max_length=40, blank=True, default="")
    model = models.CharField(max_length=200, blank=True, default="")
    # The most tokens that the call is expected to use.
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
    duration_ms = models.PositiveIntegerField(default=0)
    tested_at = models.DateTimeField(default=timezone.now, db_index=True)

    class Meta:
        ordering = ["-tested_at"]

    def __str__(self) -> str:
        return f"{self.agent} on {self.model}"


class Job(models.Model):
    """Work in the background.

    The row of a job decides what is done, and the broker only gives notice of the job. Repeated
    requests have the same `key`, so they make only one job. A worker claims the job by a
    conditional UPDATE, by which it gets a lease and a token. The worker may write for the job only
    while the row has this token.
    """

    class Kind(models.TextChoices):
        LOCK = "lock"
        SUMMARIZE = "summarize"
        NARRATE = "narrate"
        # The kind of job in which somebody acts without a prompt.
        GO_ON = "go_on"
        # A late result that a summary has brought. Such a job is stored when it is done already.
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
        """The classes of work, by what waits for it, the most urgent first. Each has a queue of
        this name at the broker."""

        # Somebody looks at the page until this is done.
        PERSON = "person"
        # Nobody waits for this yet.
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
    # A summary or a narration names the attempt at the last turn that it tells. A job for a late
    # result names the attempt that asked for the result, or at which the stretch of its summary
    # ends. A job GO_ON names the attempt after which
    # somebody acts.
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
    # The inputs of a narration. A later build with the same inputs can continue it.
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
    # The counts of the process's present run, by family; see storyengine.operations.counts.
    counts = models.JSONField(default=dict)
    # A few digits by which processes notice that they have different keys (see
    # storyengine.stack.process_checks). They never show a key.
    key_fingerprint = models.CharField(max_length=16, blank=True, default="")
    # The most connections to the database that the process may open.
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


class ProviderConsent(models.Model):
    """The GM's consent to send texts to this host. Deleting the row withdraws the consent."""

    host = models.CharField(max_length=253, primary_key=True)
    granted_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.host


class ModelServer(models.Model):
    """A server of models that the user has added.

    The row never has a key. A name stays with its address for ever, even when the server is
    removed, because a variable of the environment may hold the key for this name.
    """

    name = models.SlugField(max_length=40, primary_key=True)
    title = models.CharField(max_length=60)
    address = models.CharField(max_length=500)
    is_removed = models.BooleanField(default=False)
    added_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.title


class ModelChoice(models.Model):
    """The user's choice of a server and a model for an agent, or for all agents ("")."""

    agent = models.CharField(max_length=100, primary_key=True)
    # None for the embedded model and for the environment's server, which `builtin` names.
    server = models.ForeignKey(ModelServer, on_delete=models.CASCADE, null=True, blank=True)
    builtin = models.CharField(max_length=20, blank=True)
    model = models.CharField(max_length=200, blank=True)

    def __str__(self) -> str:
        return f"{self.agent or 'all agents'}: {self.model}"


class SpendingCap(models.Model):
    """The caps on what a chapter may cost, in one row, as the user has stored them."""

    name = models.CharField(max_length=20, primary_key=True, default="default")
    dollars = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    tokens = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.dollars} dollars, {self.tokens} tokens"


class EmbeddedServer(models.Model):
    """The state of the embedded model, in one row, which the model's process writes."""

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
    # The time of the latest renewal. The process that runs the model renews the row every few
    # seconds, so an old time means that this process has ended.
    alive_at = models.DateTimeField(default=timezone.now)
    # How long ago that was. Only `read_embedded_server` asks the database for it.
    age: timedelta

    def __str__(self) -> str:
        return f"{self.model}: {self.phase}"


class TokenCalibration(models.Model):
    """Sums from which the engine estimates how many tokens a model counts for an agent's requests.
    The sums come from the tokens that servers reported."""

    model = models.CharField(max_length=200)
    # Each agent has its own row, because the requests of agents differ in tokens per character. For
    # example, some requests have more JSON and others more prose.
    agent = models.CharField(max_length=AGENT_CHAR_LIMIT)
    # Two sums over the latest calls: the weight of the text that was sent (see
    # agents.prompting.budget), and the number of its tokens.
    weight = models.FloatField(default=0)
    tokens = models.FloatField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["model", "agent"], name="one_calibration_per_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.model}, {self.agent}"


class ReportedWindow(models.Model):
    """The context window that a server reports for one of its models."""

    LONGEST = 200

    server = models.CharField(max_length=LONGEST, help_text="Its address")
    model = models.CharField(max_length=LONGEST)
    # The window in tokens. None if the server reports nothing about this model.
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
