"""Backs up PostgreSQL with pg_dump, pg_restore and psql. These programs read the password from
their environment.

A restore uses psql, so that one transaction can drop every table and load the backup. pg_restore
--clean would drop only the tables of the backup, but after an upgrade the database may have more
tables.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from django.db.backends.postgresql.client import DatabaseClient

from storyengine.backups.contents import Contents, Migration
from storyengine.backups.folder import draft
from storyengine.stack.backup_errors import BackupError, ToolMissing

_MAGIC = b"PGDMP"
# Debian and Ubuntu keep PostgreSQL's programs below this folder, in one folder for each version.
_DEBIAN_FOLDERS = Path("/usr/lib/postgresql")
PATIENCE_SECONDS = 20.0

_DROP_ALL = """
DO $$
DECLARE
  named text;
BEGIN
  PERFORM set_config('lock_timeout', '{milliseconds}', true);
  FOR named IN
    SELECT format('%I.%I', schemaname, tablename) FROM pg_tables WHERE schemaname = current_schema()
  LOOP
    EXECUTE 'DROP TABLE IF EXISTS ' || named || ' CASCADE';
  END LOOP;
  -- The only function that migrations make.
  DROP FUNCTION IF EXISTS plain_spelling(text);
END $$;
"""
_COPY_OF_MIGRATIONS = re.compile(r"COPY \S*django_migrations \((?P<columns>.*)\) FROM stdin;\n")


class PostgresqlStore:
    ending = "dump"

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings

    def dump(self, draft: Path) -> None:
        self._run(
            "pg_dump",
            ["--format=custom", "--no-owner", "--no-privileges", f"--file={draft}"],
            "The database could not be backed up",
        )
        _run("pg_restore", [f"--file={os.devnull}", str(draft)], "The backup is damaged")

    @contextmanager
    def opened(self, backup: Path) -> Iterator[Contents]:
        with backup.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise BackupError(f"{backup} is no backup of Story Engine's PostgreSQL database.")
        with draft() as script:
            # pg_restore reads the whole backup here. It fails if the backup is damaged or ends too
            # early.
            _run(
                "pg_restore",
                [
                    *("--no-owner", "--no-privileges"),
                    # The comments of extensions are left out, because only the owner of an
                    # extension may comment on it, and another user may own it.
                    *("--no-comments", f"--file={script}", str(backup.absolute())),
                ],
                f"{backup} is damaged",
            )
            yield Contents(script, frozenset(_read_migrations(script)))

    def load(self, contents: Contents) -> None:
        drop_all = _DROP_ALL.replace("{milliseconds}", str(round(PATIENCE_SECONDS * 1_000)))
        self._run(
            "psql",
            [
                "--no-psqlrc",
                "--quiet",
                "--output=" + os.devnull,
                "--set=ON_ERROR_STOP=1",
                "--single-transaction",
                f"--command={drop_all}",
                f"--file={contents.source}",
            ],
            "Nothing was restored, and nothing changed",
        )

    def _run(self, program: str, arguments: Sequence[str], complaint: str) -> None:
        words, secrets = DatabaseClient.settings_to_cmd_args_env(
            self._settings, ["--no-password", *arguments]
        )
        _run(program, words[1:], complaint, secrets or {})


def _run(
    program: str, arguments: Sequence[str], complaint: str, secrets: dict[str, str] | None = None
) -> None:
    done = subprocess.run(  # noqa: S603  (its words are this program's own)
        [_find(program), *arguments],
        env={**os.environ, **(secrets or {}), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        raise BackupError(f"{complaint} ({program}: {_first_error(done.stderr)}).")


def _first_error(said: str) -> str:
    """Return one line of PostgreSQL's error. The other lines may quote a row with text of a
    story."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line for line in lines if re.search(r"\b(error|ERROR|FATAL)\b", line)]
    return (errors or lines or ["it gave no reason"])[0][:300]


def _find(program: str) -> str:
    """Return the path of this program. The search path is tried first, and then the newest version
    in Debian's folders.

    Raises ToolMissing if the program is not installed.
    """
    if found := shutil.which(program):
        return found
    versions = [
        (int(path.parent.parent.name), path)
        for path in _DEBIAN_FOLDERS.glob(f"*/bin/{program}")
        if path.parent.parent.name.isdecimal()
    ]
    if not versions:
        raise ToolMissing(
            f"{program} is not installed. It comes with PostgreSQL's client programs: "
            "apt install postgresql-client"
        )
    return str(max(versions)[1])


def _read_migrations(script: Path) -> Iterator[Migration]:
    with script.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if match := _COPY_OF_MIGRATIONS.fullmatch(line):
                columns = match["columns"].split(", ")
                break
        else:
            return
        for line in lines:
            if line == "\\.\n":
                return
            row = dict(zip(columns, line.rstrip("\n").split("\t"), strict=True))
            yield row["app"], row["name"]
