"""Celery's broker in a folder: kombu's, whose files nobody reads while they are being made.

kombu opens a message's file under its final name and writes it then; a worker that looks in between
reads an empty message and dies of it. So it is with the table of an exchange's queues, and one that
a crash left empty would end every worker at its start, and fail the first send of every process.
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

# The longest timed wait for a message, in seconds: a worker looks between two whether it is to end.
# Celery's remote control, which nothing here uses, hears only what is said within it.
_LONGEST_WAIT = 0.5


class Channel(filesystem.Channel):
    @property
    def transport_options(self) -> Any:
        """A queue that could not be declared closes the channel, and kombu goes on to send over it.

        What it hears then it takes for a reason to send again over a new one.
        """
        if self.connection is None:
            raise ChannelError("The channel was closed.")
        return super().transport_options

    def _put(  # type: ignore[override]  # kombu's own class differs from its base in this way too
        self, queue: str, payload: dict[str, Any], **kwargs: Any
    ) -> None:
        """Write under a name that nobody looks for, then give the file its own."""
        # The names are kombu's: they sort by time and end with the queue.
        name = f"{round(time.monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
        folder = Path(self.data_folder_out)
        draft = folder / f"{name}.unfinished"
        try:
            draft.write_text(dumps(payload), encoding="utf-8")
            os.replace(draft, folder / name)
        except OSError as error:
            raise ChannelError(f"The queue's folder {folder} cannot be written to.") from error

    def _get(self, queue: str, timeout: float | None = None) -> Any:
        """A message that cannot be read, such as one that a full disk cut short, is passed over."""
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
        """Where kombu makes, changes or reads a table; one that cannot be read is made anew."""
        table: Path = self._exchange_file(exchange)  # type: ignore[attr-defined]  # newer than its stubs
        self.control_folder.mkdir(exist_ok=True)
        with (self.control_folder / "lock").open("wb") as guard:
            # Let go of as the file is closed.
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
