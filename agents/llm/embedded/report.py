"""Writes the row of EmbeddedServer, which tells other processes the embedded model's state."""

import logging
import time
from typing import Any

from django.db import Error as DatabaseError
from django.db import close_old_connections
from django.db.models.functions import Now

from agents.models import EmbeddedServer
from sessions.storage import describe

logger = logging.getLogger(__name__)

# The seconds between two renewals of the row. This time is much shorter than
# agents.llm.embedded.status.ALIVE_FOR, because a row of that age no longer counts.
_RENEWAL_SECONDS = 5.0
_PROGRESS_SECONDS = 1.0


class Report:
    """The writer of the EmbeddedServer row. The row is written after each change of the state, and
    every few seconds besides, because its age shows whether the process is alive."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._fields: dict[str, Any] = {}
        self._written = float("-inf")
        self._tenths = 0

    def show_start(self) -> None:
        """Show that the model is being started, so that calls wait for the model.

        If a killed process has left a row, the row is overwritten.
        """
        self.show(EmbeddedServer.Phase.LOADING)

    def show(self, phase: EmbeddedServer.Phase, **fields: Any) -> None:
        """Show a new phase of the embedded model.

        All fields of the row that are not given are emptied, except for the model's name.
        """
        self._model = fields.pop("model", self._model)
        self._fields = {"phase": phase, **fields}
        self._write()

    def show_progress(self, done: int, total: int) -> None:
        """Show how many bytes of the model have been fetched.

        The caller may call this method often, because most calls do not write to the database.
        """
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
        """Delete the row when the process ends, so that nobody waits for the model."""
        try:
            EmbeddedServer.objects.all().delete()
        except DatabaseError as error:
            logger.warning(
                "The state of the embedded model could not be withdrawn: %s", describe(error)
            )

    def _write(self) -> None:
        # The error is only logged, because a short failure of the database must not end the process
        # that runs the model.
        close_old_connections()
        row = EmbeddedServer(model=self._model, alive_at=Now(), **self._fields)
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
