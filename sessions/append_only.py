"""The base class of rows that are never changed, such as events, memory blocks and drafts."""

from typing import Any

from django.db import models


class AppendOnly(models.Model):
    """A row that is added once and never changed. It is deleted only with its whole chapter."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError(f"{type(self).__name__} is append-only.")
        super().save(*args, **kwargs)
