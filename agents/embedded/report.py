"""The EmbeddedServer row: what web and worker know of the process that runs the model."""

import logging
import time
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.utils import timezone

from agents.models import EmbeddedServer
from agents.storage import describe

logger = logging.getLogger(__name__)

# Well within agents.embedded.status.ALIVE_FOR.
_RENEWAL_SECONDS = 5.0
_PROGRESS_SECONDS = 1.0


class Report:
    """Writes the row when something changed, and often enough to show that the process lives."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._fields: dict[str, Any] = {}
        self._written = float("-inf")
        self._tenths = 0

    def show_start(self) -> None:
        """The process is being started: whoever comes before it has loaded anything waits for it.

        A row that a killed run left behind says nothing any more.
        """
        self.show(EmbeddedServer.Phase.LOADING)

    def show(self, phase: EmbeddedServer.Phase, **fields: Any) -> None:
        """A new phase; fields that are not given are emptied, but for the model's name."""
        self._model = fields.pop("model", self._model)
        self._fields = {"phase": phase, **fields}
        self._write()

    def show_progress(self, done: int, total: int) -> None:
        """How far the fetching is; cheap enough to be called all the time."""
        is_first = self._fields.get("bytes_total") != total
        self._fields = {
            "phase": EmbeddedServer.Phase.FETCHING,
            "bytes_done": done,
            "bytes_total": total,
        }
        if is_first or time.monotonic() - self._written > _PROGRESS_SECONDS:
            self._write()
        tenths = 10 * done // total if total else 0
        if tenths > self._tenths or is_first:
            self._tenths = tenths
            logger.info("The embedded model is %d %% here.", 10 * tenths)

    def renew(self) -> None:
        if time.monotonic() - self._written > _RENEWAL_SECONDS:
            self._write()

    def withdraw(self) -> None:
        """The process ends: nobody should wait for it."""
        try:
            EmbeddedServer.objects.all().delete()
        except DatabaseError as error:
            logger.warning(
                "The state of the embedded model could not be withdrawn: %s", describe(error)
            )

    def _write(self) -> None:
        # A database that is away for a moment must not end the process that holds the model.
        close_old_connections()
        row = EmbeddedServer(model=self._model, alive_at=timezone.now(), **self._fields)
        names = [field.name for field in EmbeddedServer._meta.fields if not field.primary_key]
        try:
            EmbeddedServer.objects.bulk_create(
                [row], update_conflicts=True, unique_fields=["name"], update_fields=names
            )
        except DatabaseError as error:
            logger.warning(
                "The state of the embedded model could not be written: %s", describe(error)
            )
        self._written = time.monotonic()
