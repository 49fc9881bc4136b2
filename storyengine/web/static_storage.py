"""Stores the collected static files: the program's own scripts without their comments, and beside
each file a compressed copy if the copy is smaller."""

import os
import stat
from typing import Any

from django.core.files import File
from django.core.files.base import ContentFile
from servestatic.compress import Compressor
from servestatic.storage import CompressedManifestStaticFilesStorage

# The folder of the program's own scripts. None of them has a text of several lines.
_OWN_SCRIPTS = "js/"


def without_comments(script: str) -> str:
    """Return a script without the lines that are comments, and without space before its lines."""
    lines = (line.strip() for line in script.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("//"))


class CompressedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    def _save(self, name: str, content: "File[Any]") -> str:
        if name.startswith(_OWN_SCRIPTS):
            # The content may have been read already, for the hash in its name.
            content.seek(0)
            content = ContentFile(without_comments(content.read().decode()).encode())
        saved: str = super()._save(name, content)
        return saved

    def create_compressor(self, **kwargs: Any) -> Compressor:
        return _Compressor(**kwargs)


class _Compressor(Compressor):  # type: ignore[misc]
    """A compressor that gives its copies the permissions of the files. When the image is built,
    root collects the files for another user."""

    @staticmethod
    def write_data(path: str, data: bytes, suffix: str, stat_result: os.stat_result) -> str:
        copy: str = Compressor.write_data(path, data, suffix, stat_result)
        os.chmod(copy, stat.S_IMODE(stat_result.st_mode))
        return copy
