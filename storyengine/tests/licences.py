"""Checks the licences of the packages that are installed with the program and with its tests.

`make check` runs this module. It reads the lock files, and the metadata of the installed packages.
"""

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

from packaging.markers import Marker

BASE = Path(__file__).resolve().parents[2]

# Permissive licences, by their SPDX identifiers and by the names that older packages use for them,
# in small letters.
PERMISSIVE = frozenset(
    {"0bsd", "apache-2.0", "bsd-2-clause", "bsd-3-clause", "cc0-1.0", "isc", "mit", "mit-0"}
    | {"mit-cmu", "psf-2.0", "python-2.0", "unlicense", "zlib"}
    | {"apache 2.0", "apache software license", "bsd", "bsd license", "isc license (iscl)"}
    | {"mit license", "python software foundation license"}
)
# What only tests use may also have this licence.
OF_TESTS = PERMISSIVE | {"mpl-2.0", "mozilla public license 2.0 (mpl 2.0)"}
# The packages that may have another licence, with the reason.
_LIBRARY = "The LGPL allows its use as a library that everybody can replace, and it is not changed."
EXCEPTIONS = {
    "psycopg": ("lgpl-3.0-only", _LIBRARY),
    "psycopg-binary": ("lgpl-3.0-only", _LIBRARY),
    "psycopg-pool": ("lgpl-3.0-only", _LIBRARY),
}
# The packages whose metadata name no licence, with the licence of the file that they bring along.
IN_FILES = {"axe-playwright-python": "mit"}

_PINNED = re.compile(r"^([\w.-]+)(?:\[[\w,-]+\])?==\S+(?: ; ([^\\\n]+))?", re.MULTILINE)
_CLASSIFIER = re.compile(r"License :: (?:OSI Approved :: )?(.+)")


def problems(lock: str, permitted: frozenset[str]) -> Iterator[str]:
    """Yield a sentence for each package of the lock file that no permitted licence covers. Packages
    for other platforms are not looked at."""
    for found in _PINNED.finditer(lock):
        name, marker = found[1], found[2]
        if marker and not Marker(marker.strip()).evaluate():
            continue
        try:
            metadata = importlib.metadata.metadata(name)
        except PackageNotFoundError:
            yield f"{name} is not installed, so its licence is not known."
            continue
        classifiers = [_CLASSIFIER.match(one) for one in metadata.get_all("Classifier") or ()]
        expression = metadata["License-Expression"] or ""
        named = metadata["License"] or IN_FILES.get(name, "")
        told = [one[1] for one in classifiers if one] or [named]
        if not is_permitted(expression, told, permitted | {EXCEPTIONS.get(name, ("",))[0]} - {""}):
            yield f"{name} has the licence {(expression or '; '.join(told))[:80] or '(none)'}."


def is_permitted(expression: str, told: list[str], permitted: frozenset[str]) -> bool:
    """Return whether the licences are permitted. An SPDX expression says more than the other words
    of a package. If it only offers a choice, one permitted licence is enough. Everything else must
    be permitted as a whole."""
    if not expression:
        return all(one.strip().lower() in permitted for one in told)
    words = set(re.findall(r"[\w.+-]+", expression.lower()))
    licences = words - {"and", "or"}
    permits = any if words & {"and", "or"} == {"or"} else all
    return permits(one in permitted for one in licences)


def main(folder: Path = BASE) -> int:
    found: dict[str, None] = {}
    for file, permitted in (
        ("requirements.lock", PERMISSIVE),
        ("requirements-dev.lock", OF_TESTS),
    ):
        found |= dict.fromkeys(problems((folder / file).read_text(encoding="utf-8"), permitted))
    for problem in found:
        sys.stderr.write(f"{problem} It may not be used (see docs/books.md).\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
