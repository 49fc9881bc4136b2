"""The keys of servers. A key is kept with the one address that it may be sent to, and is looked up
only for a call of this address.

Pasted keys are in one file of the data folder. Pasted keys are never in the database, so no backup
and no export has them.
"""

import fcntl
import json
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from django.conf import settings

from agents.calling.servers.choices import EMBEDDED, ENVIRONMENT, Server
from agents.calling.servers.seen_keys import note_keys
from agents.llm.providers.http_clients import host_of
from sessions.exceptions import ChapterError, InvalidInput

# The limit of a key in characters, and of the file of keys in bytes.
KEY_CHAR_LIMIT = 1_000
_LARGEST_FILE = 200_000
_SHORTEST_KEY = 8

KeySource = Literal["", "environment", "pasted"]


class KeysUnreadable(ChapterError):
    """The file of keys cannot be used as it is."""

    status = 409
    title = "The file of keys cannot be used"


def key_for(server: Server) -> str:
    """Return the key for this server, or "" if it has none. The environment's key wins.

    Raises KeysUnreadable.
    """
    if server.name == ENVIRONMENT:
        return settings.OPENAI_API_KEY
    if server.name == EMBEDDED:
        return ""
    return settings.SERVER_KEYS.get(_setting(server), "") or _pasted_key(server)


def source_of_key(server: Server) -> KeySource:
    """Return where the server's key comes from, and "" if it has none or its file is unusable."""
    if server.name == ENVIRONMENT:
        return "environment" if settings.OPENAI_API_KEY else ""
    if settings.SERVER_KEYS.get(_setting(server)):
        return "environment"
    with suppress(KeysUnreadable):
        return "pasted" if _pasted_key(server) else ""
    return ""


def variable_for(server: Server) -> str:
    """Return the name of the variable of the environment that may hold the server's key."""
    if server.name == ENVIRONMENT:
        return "OPENAI_API_KEY"
    return f"STORYENGINE_KEY_{_setting(server)}"


def why_no_pasting(server: Server) -> str:
    """Return why no key can be pasted for this server, or ""."""
    if server.name in (EMBEDDED, ENVIRONMENT):
        return "A key can be pasted only for a server that was added on this page."
    if not settings.CELERY_BROKER_URL.startswith("filesystem://"):
        return (
            "The pages and the worker need not share a data folder in this installation, so a key "
            f"can be set only as {variable_for(server)} in the environment of both."
        )
    if not _may_carry(server):
        return (
            "The address begins with http:// and is not on this machine, so a key would travel "
            "where others can read it. Use an https:// address."
        )
    return ""


def paste_key(server: Server, key: str) -> None:
    """Keep a key for the server's address, in place of an earlier key. Raises InvalidInput and
    KeysUnreadable."""
    key = key.strip()
    if reason := why_no_pasting(server):
        raise InvalidInput(f"{reason} The key was not kept.")
    if (
        not _SHORTEST_KEY <= len(key) <= KEY_CHAR_LIMIT
        or not key.isascii()
        or not key.isprintable()
    ):
        raise InvalidInput(
            f"This is no key: a key has {_SHORTEST_KEY} to {KEY_CHAR_LIMIT:,} plain characters. "
            "Nothing was kept; paste it again."
        )
    if " " in key:
        raise InvalidInput("A key has no spaces. Nothing was kept; paste it again.")
    with _locked():
        _write({**_read(), server.address: key})


def forget_key(server: Server) -> None:
    """Remove the pasted key of this server's address. Raises KeysUnreadable."""
    with _locked():
        keys = _read()
        if keys.pop(server.address, None) is not None:
            _write(keys)


def why_unusable() -> str:
    """Return why no pasted key can be used, or ""."""
    try:
        _read()
    except KeysUnreadable as error:
        return str(error)
    return ""


def _setting(server: Server) -> str:
    return server.name.upper().replace("-", "_")


def _may_carry(server: Server) -> bool:
    return server.address.lower().startswith("https:") or not host_of(server.address)


def _pasted_key(server: Server) -> str:
    return _read().get(server.address, "") if _may_carry(server) else ""


def _file() -> Path:
    return Path(settings.DATA_FOLDER) / "model-keys.json"


@contextmanager
def _locked() -> Iterator[None]:
    """Let only one process change the file at a time, so that no change is lost. The data folder is
    locked and not the file, because the file is replaced."""
    folder = os.open(settings.DATA_FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _read() -> dict[str, str]:
    try:
        handle = os.open(_file(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise KeysUnreadable(_unusable("cannot be opened, or is a link")) from error
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise KeysUnreadable(_unusable("belongs to somebody else or is no plain file"))
        if stat.S_IMODE(found.st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeysUnreadable(_unusable("can be read by other users"))
        text = file.read(_LARGEST_FILE + 1)
    try:
        stored = json.loads(text) if len(text) <= _LARGEST_FILE else None
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or not all(isinstance(one, str) for one in stored.values()):
        # Raised outside the `except` block: a chained error would show the text of the file.
        raise KeysUnreadable(_unusable("is damaged"))
    note_keys(set(stored.values()))
    return stored


def _write(keys: dict[str, str]) -> None:
    """Replace the file as a whole, so that a reader sees either the old keys or the new keys."""
    path = _file()
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(keys, file)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    note_keys(set(keys.values()))


def _unusable(reason: str) -> str:
    return (
        f"The file of keys {_file().name} in the data folder {reason}, so no pasted key is used. "
        "Nothing was sent. Let only its owner read it (mode 600), or remove it and paste the keys "
        "again."
    )
