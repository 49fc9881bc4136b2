"""The lengths of replies that a Game Master can choose."""

from django.db import models


class ReplyLength(models.TextChoices):
    SHORT = "short"
    NORMAL = "normal"
    LONG = "long"
