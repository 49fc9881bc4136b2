"""A thread of every worker that says every few seconds that the worker lives."""

import logging
import threading

from django.db import Error as DatabaseError
from django.db import connection

from agents.running.heartbeats import HEARTBEAT_SECONDS, store_heartbeat
from agents.storage import describe
from storyengine.operations.counts import own_samples

logger = logging.getLogger(__name__)

# How long an end waits for the last heartbeat: of a database that hangs nobody learns anything.
_LAST_SECONDS = 2.0


class HeartbeatThread(threading.Thread):
    """A daemon, which ends with its process, however that ends.

    The sweep would not do: a worker whose threads are all at work has none for it.
    """

    def __init__(self, worker: str) -> None:
        super().__init__(name="Heartbeat", daemon=True)
        self.worker = worker
        self.is_over = threading.Event()

    def run(self) -> None:
        self._beat()
        while not self.is_over.wait(HEARTBEAT_SECONDS):
            self._beat()
        self._beat(is_last=True)

    def end(self) -> None:
        """Returns when it is known that the worker has gone, or cannot be made known."""
        self.is_over.set()
        self.join(_LAST_SECONDS)

    def _beat(self, *, is_last: bool = False) -> None:
        try:
            store_heartbeat(self.worker, own_samples(), is_last=is_last)
        except DatabaseError as error:
            logger.warning("the worker's heartbeat was not stored: %s", describe(error))
        finally:
            connection.close()
