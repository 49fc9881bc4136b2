"""Celery's broker in a folder. It is kombu's broker, with a safe way of writing files.

kombu opens the file of a message under its final name, and then writes the message. A worker that
reads the file in between finds no message, and ends with an error. In the same way kombu writes the
table that says which queues an exchange has. If a crash left an empty table, every worker would end
when it starts, and the first message that a process sends would fail.
"""

import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps, loads

# A single wait for a message takes at most this many seconds. After each wait, a worker checks
# whether it has to end.
_LONGEST_WAIT = 0.5


class Channel(filesystem.Channel):
    @property
    def transport_options(self) -> Any:
        """The options of the connection. Raises ChannelError if the channel is closed.

        kombu closes a channel when it cannot declare a queue, but still sends over this channel.
        The error makes kombu send again over a new channel.
        """
        if self.connection is None:
            raise ChannelError("The channel was closed.")
        return super().transport_options

    def _put(  # type: ignore[override]  # kombu's own class differs from its base in this way too
        self, queue: str, payload: dict[str, Any], **kwargs: Any
    ) -> None:
        """Write the message into a file under a temporary name, and then rename the file."""
        # kombu reads the files in the order of their names, so a name begins with the time. It ends
        # with the name of the queue, as kombu expects.
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        draft = folder / f"{name}.unfinished"
        try:
            draft.write_text(dumps(payload), encoding="utf-8")
            os.replace(draft, folder / name)
        except OSError as error:
            raise ChannelError(f"The queue's folder {folder} cannot be written to.") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """Return the next message. A file without a whole message is skipped. A full disk may have
        left such a file."""
        try:
            return super()._get(queue)
        except ValueError:
            raise Empty from None

    def get_table(self, exchange: str) -> Any:
        with self._alone_with_table(exchange):
            return super().get_table(exchange)

    def _queue_bind(self, exchange: str, *binding: Any) -> None:
        with self._alone_with_table(exchange):
            super()._queue_bind(exchange, *binding)

    def _delete(self, queue: str, exchange: str, *binding: Any, **options: Any) -> None:
        with self._alone_with_table(exchange):
            super()._delete(queue, exchange, *binding, **options)

    @contextmanager
    def _alone_with_table(self, exchange: str) -> Iterator[None]:
        """Lock the table of an exchange's queues while kombu creates, changes or reads it. Delete a
        broken table."""
        table: Path = self._exchange_file(exchange)  # type: ignore[attr-defined]  # newer than its stubs
        self.control_folder.mkdir(exist_ok=True)
        with (self.control_folder / "lock").open("wb") as guard:
            # Closing the file releases the lock.
            fcntl.flock(guard, fcntl.LOCK_EX)
            if table.exists() and not _is_json(table):
                table.unlink()
            yield


class Transport(filesystem.Transport):
    Channel = Channel

    def drain_events(  # type: ignore[override]  # kombu's own method takes no more than its stubs say
        self, connection: Any, timeout: float | None = None
    ) -> None:
        wait = None if timeout is None else min(timeout, _LONGEST_WAIT)
        super().drain_events(connection, timeout=wait)


def _is_json(file: Path) -> bool:
    try:
        loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return True
