"""Typed readers of the environment: a bad value stops the start with the variable's name."""

import os
import secrets
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

env = environ.Env()


def read_text(name: str, default: str = "") -> str:
    """An empty variable counts as one that is not set."""
    return os.environ.get(name, "").strip() or default


def read_bool(name: str, *, default: bool = False) -> bool:
    text = read_text(name).lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    if text:
        raise ImproperlyConfigured(f"{name} must be true or false, not {text!r}.")
    return default


def read_int(name: str, default: int, *, minimum: int = 0) -> int:
    text = read_text(name)
    try:
        value = int(text) if text else default
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} must be a whole number, not {text!r}.") from error
    if value < minimum:
        raise ImproperlyConfigured(f"{name} must be at least {minimum}, not {value}.")
    return value


def read_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = read_text(name, default)
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def read_folder(name: str, default: Path) -> Path:
    """The folder, made private to its owner if it is not there yet."""
    folder = Path(read_text(name, str(default))).expanduser().resolve()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def read_database(data_folder: Path) -> dict[str, Any]:
    """DATABASE_URL as Django's settings; without it a SQLite file in the data folder."""
    config: dict[str, Any] = dict(
        env.db("DATABASE_URL", default=f"sqlite:///{data_folder / 'storyengine.sqlite3'}")
    )
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # Every write transaction takes the lock at its start, so that two writers queue instead
        # of failing; FULL because an acknowledged prompt must survive a power cut.
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
        # A file, because streaming code writes from several threads.
        config["TEST"] = {"NAME": str(data_folder / "test.sqlite3")}
    else:
        # Requests under ASGI come on short-lived threads: a pool saves a connection each.
        config.setdefault("OPTIONS", {})["pool"] = {"min_size": 1, "max_size": 20}
    return config


def read_secret_key(data_folder: Path) -> str:
    """SECRET_KEY, or a random one kept in the data folder so that logins outlive a restart."""
    if key := read_text("SECRET_KEY"):
        return key
    path = data_folder / "secret-key"
    try:
        # Exclusive creation: of two processes that start at once, one writes and both read.
        with open(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(50))
    except FileExistsError:
        pass
    if key := path.read_text().strip():
        return key
    raise ImproperlyConfigured(f"{path} is empty. Delete it or set SECRET_KEY.")
