"""The tables of models and their servers: what the user has chosen and allowed, and what is known
of them."""

from datetime import timedelta
from typing import ClassVar

from django.db import models
from django.utils import timezone

from sessions.limits import AGENT_CHAR_LIMIT


class ProviderConsent(models.Model):
    """The GM's consent to send texts to this host. The consent is withdrawn by deleting the row."""

    host = models.CharField(max_length=253, primary_key=True)
    granted_at = models.DateTimeField(default=timezone.now)

    def __str__(self) -> str:
        return self.host


class ModelServer(models.Model):
    """A server of models that the user has added.

    The row never has the server's API key. A name belongs to its address for ever, even when the
    server is removed, because a variable of the environment may hold the API key for this name.
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
    """The user's caps on the cost of a chapter. The table has one row."""

    name = models.CharField(max_length=20, primary_key=True, default="default")
    dollars = models.DecimalField(max_digits=12, decimal_places=2, null=True, blank=True)
    tokens = models.BigIntegerField(null=True, blank=True)

    def __str__(self) -> str:
        return f"{self.dollars} dollars, {self.tokens} tokens"


class RefusedField(models.Model):
    """A field of requests that a server has refused for one of its models, such as "temperature".
    It is left out for a day, or until somebody chooses the model anew or removes the server."""

    LONGEST = 200

    server = models.CharField(max_length=LONGEST, help_text="Its address")
    model = models.CharField(max_length=LONGEST)
    field = models.CharField(max_length=40)
    refused_at = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["server", "model", "field"], name="one_refusal_each"),
        ]

    def __str__(self) -> str:
        return f"{self.model}: {self.field}"


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
    # The age of `updated_at` by the clock of the database. Only `read_embedded_server` sets it.
    age: timedelta

    def __str__(self) -> str:
        return f"{self.model}: {self.phase}"


class TokenCalibration(models.Model):
    """Sums that let the engine estimate how many tokens a model counts for an agent's requests. The
    sums come from the tokens that servers reported."""

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
