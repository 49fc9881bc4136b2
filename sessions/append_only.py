"""The base of rows that are written once, such as those of play, of memory and of drafts."""

from typing import Any

from django.db import models


class AppendOnly(models.Model):
    """A row that can be added, and deleted with its whole chapter, but never changed."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise TypeError(f"{type(self).__name__} is append-only.")
        super().save(*args, **kwargs)
