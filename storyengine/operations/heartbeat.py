"""A thread of every worker. Every few seconds it stores that the worker is alive."""

import logging
import threading

from django.db import Error as DatabaseError
from django.db import connection

from agents.running.heartbeats import HEARTBEAT_SECONDS, store_heartbeat
from agents.storage import describe
from storyengine.operations.counts import own_samples

logger = logging.getLogger(__name__)

# The most seconds that a worker waits at its end until its last heartbeat is stored. A hanging
# database would delay it for longer.
_LAST_SECONDS = 2.0


class HeartbeatThread(threading.Thread):
    """A daemon thread for heartbeats. It ends with its process in every case.

    The sweep could not do this work, because it needs a free thread and the worker may have none.
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
        """End the thread, and wait a short time until it has stored the end of the worker."""
        self.is_over.set()
        self.join(_LAST_SECONDS)

    def _beat(self, *, is_last: bool = False) -> None:
        try:
            store_heartbeat(self.worker, own_samples(), is_last=is_last)
        except DatabaseError as error:
            logger.warning("the worker's heartbeat was not stored: %s", describe(error))
        finally:
            connection.close()
