"""Stores the collected static files, with a compressed copy beside each file that it makes
smaller."""

import os
import stat
from typing import Any

from servestatic.compress import Compressor
from servestatic.storage import CompressedManifestStaticFilesStorage


class CompressedStorage(CompressedManifestStaticFilesStorage):  # type: ignore[misc]
    def create_compressor(self, **kwargs: Any) -> Compressor:
        return _Compressor(**kwargs)


class _Compressor(Compressor):  # type: ignore[misc]
    """A compressor whose copies can be read by whoever can read the file itself. When the image is
    built, root collects the files for another user."""

    @staticmethod
    def write_data(path: str, data: bytes, suffix: str, stat_result: os.stat_result) -> str:
        copy: str = Compressor.write_data(path, data, suffix, stat_result)
        os.chmod(copy, stat.S_IMODE(stat_result.st_mode))
        return copy
