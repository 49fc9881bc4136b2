"""A thread of a worker, or of a web process on a database server. It stores every few seconds that
the process is alive."""

import logging
import threading
from socket import gethostname

from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection

from agents.models import ProcessHeartbeat
from agents.running.heartbeats import HEARTBEAT_SECONDS, store_heartbeat
from sessions.storage import describe
from storyengine.operations import exposition
from storyengine.operations.checks.process_checks import find_faults
from storyengine.operations.exposition import own_samples

logger = logging.getLogger(__name__)

# An ending worker waits at most this many seconds until its last heartbeat is stored. Without a
# limit, a hanging database would keep the worker from ending.
_LAST_SECONDS = 2.0


class HeartbeatThread(threading.Thread):
    """A daemon thread that stores heartbeats. A daemon thread never outlives its process.

    The sweep cannot do this work. It runs only when the worker has a free thread, and a busy worker
    has none. After its first heartbeat, the thread reports settings that do not fit the other
    living processes.
    """

    def __init__(self, process: str, role: str = ProcessHeartbeat.Role.WORKER) -> None:
        super().__init__(name="Heartbeat", daemon=True)
        self.process, self.role = process, role
        self.is_over = threading.Event()

    def run(self) -> None:
        self._beat()
        self._look_around()
        while not self.is_over.wait(HEARTBEAT_SECONDS):
            self._beat()
        self._beat(is_last=True)

    def end(self) -> None:
        """Let the thread store that the process has ended, and then end. Wait at most a short time
        until the thread has ended."""
        self.is_over.set()
        self.join(_LAST_SECONDS)

    def _beat(self, *, is_last: bool = False) -> None:
        try:
            store_heartbeat(self.process, own_samples(), is_last=is_last, role=self.role)
        except DatabaseError as error:
            logger.warning("the heartbeat of %s was not stored: %s", self.process, describe(error))
        finally:
            connection.close()

    def _look_around(self) -> None:
        try:
            for fault in find_faults(self.process):
                logger.warning("%s: %s %s", fault.id, fault.msg, fault.hint)
        except DatabaseError:
            # The last heartbeat has already reported the failure.
            pass
        finally:
            connection.close()


def start_web_heartbeat() -> HeartbeatThread | None:
    """Start the heartbeats of this web process, and name its counts. On SQLite there are no
    heartbeats of web processes, because no other process reads them."""
    if connection.vendor == "sqlite":
        return None
    own = f"web@{gethostname()}:{settings.PORT}"
    exposition.own_name = own
    thread = HeartbeatThread(own, ProcessHeartbeat.Role.WEB)
    thread.start()
    return thread
