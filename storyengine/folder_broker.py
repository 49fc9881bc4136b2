"""Celery's broker in a folder: kombu's, with messages that appear whole or not at all.

kombu opens a message's file under its final name and writes it then; a worker that looks in between
reads an empty message and dies of it.
"""

import os
import time
import uuid
from pathlib import Path
from queue import Empty
from typing import Any

from kombu.exceptions import ChannelError
from kombu.transport import filesystem
from kombu.utils.json import dumps


class Channel(filesystem.Channel):
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


class Transport(filesystem.Transport):
    Channel = Channel
