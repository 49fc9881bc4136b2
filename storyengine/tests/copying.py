import shutil
from pathlib import Path

from django.conf import settings


def copy_program(folder: Path) -> None:
    """Copy the files that a build of the image may use according to .dockerignore."""
    base = Path(settings.BASE_DIR)
    lines = (base / ".dockerignore").read_text(encoding="utf-8").splitlines()
    left_out = [line.removeprefix("**/") for line in lines if line.startswith("**/")]
    folder.mkdir()
    for name in (line[1:] for line in lines if line.startswith("!")):
        if (base / name).is_dir():
            ignore = shutil.ignore_patterns(*left_out)
            shutil.copytree(base / name, folder / name, ignore=ignore)
        else:
            shutil.copy2(base / name, folder)
