"""A thread by which a worker stores every few seconds that it is alive."""

import logging
import threading

from django.db import Error as DatabaseError
from django.db import connection

from agents.running.heartbeats import HEARTBEAT_SECONDS, store_heartbeat
from agents.storage import describe
from storyengine.operations.counts import own_samples

logger = logging.getLogger(__name__)

# The most seconds for which an ending worker waits until its last heartbeat is stored. Without a
# limit, a hanging database would keep the worker from ending.
_LAST_SECONDS = 2.0


class HeartbeatThread(threading.Thread):
    """A daemon thread that stores heartbeats. A daemon thread never outlives its process.

    The sweep cannot do this work. It runs only when the worker has a free thread, and a busy worker
    has none.
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
        """Let the thread store that the worker has ended, and then end. Wait at most a short time
        until the thread has ended."""
        self.is_over.set()
        self.join(_LAST_SECONDS)

    def _beat(self, *, is_last: bool = False) -> None:
        try:
            store_heartbeat(self.worker, own_samples(), is_last=is_last)
        except DatabaseError as error:
            logger.warning("the worker's heartbeat was not stored: %s", describe(error))
        finally:
            connection.close()
