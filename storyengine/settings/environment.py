"""Reads and checks environment variables. A bad value stops the start of the program, and the
message names the variable.

django-environ reads addresses of databases and the lines of the file. Its casts are not used. They
take any unknown word for false, an empty variable for a bad number, and a password that begins with
$ for the name of another variable, and their errors do not name the variable.
"""

import codecs
import io
import os
import re
import secrets
import tempfile
from decimal import Decimal, InvalidOperation
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Any, TypeVar

import environ
from django.core.exceptions import ImproperlyConfigured

Number = TypeVar("Number", int, Decimal)
_FORMS: dict[type, str] = {int: "a whole number", Decimal: "a number, such as 2.50"}

DATABASE_SCHEMES = ("postgres", "postgresql", "sqlite")
# Files of other encodings begin with these marks. The mark of UTF-32 begins with the mark of
# UTF-16, so it is tried first.
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# The two kinds of lines: a setting, and a line without a setting, which is a name alone (Docker
# Compose takes its value from the shell), a comment, or empty.
_SETTING = re.compile(r"\s*(?:export\s+)?([A-Za-z_0-9]+)\s*=(.*)")
_NO_SETTING = re.compile(r"\s*(?:export\s+)?[A-Za-z_0-9]*\s*(?:#.*)?")
_QUOTED = re.compile(r"""\s*("(?:[^"\\]|\\.)*+"|'[^']*+')\s*(?:#.*)?""")
# A comment behind a value. A # without a blank before it belongs to the value.
_COMMENT = re.compile(r"\s+#.*")


def read_env_file(path: Path) -> None:
    """Add the variables in the file to the environment. A variable that is set already is not
    changed.

    Tests do not read the file, so that they never use a real key or password. Raises
    ImproperlyConfigured for a file that cannot be read, because a lost line would start another
    model than the user's.
    """
    if not path.is_file() or "PYTEST_VERSION" in os.environ:
        return
    try:
        text = _decode(path.read_bytes())
    except OSError as error:
        raise ImproperlyConfigured(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{path} is no text in UTF-8, so no setting in it can be read. Open it in an editor "
            "and save it as UTF-8."
        ) from error
    settings = []
    for number, line in enumerate(text.splitlines(), start=1):
        if found := _SETTING.fullmatch(line):
            settings.append(f"{found[1]}={_value(found[2])}")
        elif not _NO_SETTING.fullmatch(line):
            # The line may have a key or a password, so it is not repeated.
            raise ImproperlyConfigured(
                f"{path}, line {number}: this is no setting. Write NAME=value, or put # before it."
            )
    environ.Env.read_env(io.StringIO("\n".join(settings)))


def _value(text: str) -> str:
    """Return the value, with its quotes, but without a comment behind it."""
    quoted = _QUOTED.fullmatch(text)
    return quoted[1] if quoted else _COMMENT.sub("", text, count=1).strip()


def _decode(content: bytes) -> str:
    """Return the text of a file from any editor. Raises ValueError if its encoding is unknown."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return content.decode(encoding)
    text = content.decode()
    if "\0" in text:
        raise ValueError("This is UTF-16 without its mark, or no text.")
    return text


def read_text(name: str, default: str = "") -> str:
    """Return the variable's text, or the default if the variable is empty or not set."""
    return os.environ.get(name, "").strip() or default


def read_those_of(prefix: str) -> dict[str, str]:
    """Return the variables whose names begin with this prefix. A key is a name without the
    prefix."""
    names = (name for name in os.environ if name.startswith(prefix))
    return {name.removeprefix(prefix): text for name in names if (text := read_text(name))}


def read_list(name: str, default: str) -> list[str]:
    return [item.strip() for item in read_text(name, default).split(",") if item.strip()]


def read_bool(name: str, *, default: bool = False) -> bool:
    text = read_text(name).lower()
    if text in {"1", "true", "yes", "on"}:
        return True
    if text in {"0", "false", "no", "off"}:
        return False
    if text:
        raise ImproperlyConfigured(f"{name} must be true or false, not {text!r}.")
    return default


def read_number(
    name: str, default: Number, *, minimum: int = 0, maximum: int | None = None
) -> Number:
    """Return the variable as a finite number of the kind of the default."""
    text = read_text(name, str(default))
    try:
        value = type(default)(text)
    except (ValueError, InvalidOperation) as error:
        form = _FORMS[type(default)]
        raise ImproperlyConfigured(f"{name} must be {form}, not {text!r}.") from error
    if not (Decimal(value).is_finite() and value >= minimum):
        raise ImproperlyConfigured(f"{name} must be at least {minimum}, not {text!r}.")
    if maximum is not None and value > maximum:
        raise ImproperlyConfigured(f"{name} must be at most {maximum}, not {text!r}.")
    return value


def read_choice(name: str, default: str, choices: tuple[str, ...]) -> str:
    value = read_text(name, default)
    if value not in choices:
        raise ImproperlyConfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}.")
    return value


def read_host(name: str, *, has_password: bool) -> str:
    """Return the address on which to listen, or "" if the variable is not set.

    Raises ImproperlyConfigured if there is no password and other machines could reach this address.
    """
    text = read_text(name)
    if not text:
        return ""
    try:
        address = ip_address("127.0.0.1" if text == "localhost" else text.strip("[]"))
    except ValueError as error:
        raise ImproperlyConfigured(
            f"{name} must be localhost or an IP address of this machine, not {text!r}."
        ) from error
    if not (has_password or address.is_loopback):
        raise ImproperlyConfigured(
            f"{name} is {text}, where other machines reach the program, and there is no password. "
            "Set STORYENGINE_PASSWORD too, or listen on 127.0.0.1."
        )
    return str(address)


def read_networks(name: str) -> list[str]:
    """Return addresses and networks in the form that uvicorn uses. In this form, ["*"] means all
    addresses."""
    found = read_list(name, "")
    if "*" in found:
        return ["*"]
    for one in found:
        try:
            ip_network(one)
        except ValueError as error:
            raise ImproperlyConfigured(
                f"{name} must list IP addresses or networks such as 172.16.0.0/12, not {one!r}."
            ) from error
    return found


def read_folder(name: str, default: Path) -> Path:
    """Return the folder that the variable names. A missing folder is created, and only its owner
    can use it."""
    folder = Path(read_text(name, str(default))).expanduser().resolve()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ImproperlyConfigured(f"{name}: cannot make the folder {folder}: {error}") from error
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        raise ImproperlyConfigured(f"{name}: the folder {folder} cannot be written to.")
    return folder


def worker_threads() -> int:
    """Return the number of jobs that a worker does at the same time."""
    return read_number("STORYENGINE_WORKER_THREADS", 4, minimum=1, maximum=128)


def read_database(data_folder: Path) -> dict[str, Any]:
    """Return Django's settings for the database in DATABASE_URL. Without this variable, the
    database is a SQLite file in the data folder."""
    config: dict[str, Any] = {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(data_folder / "storyengine.sqlite3"),
    }
    if url := read_text("DATABASE_URL"):
        config = _parse_database_url(url)
    if config["ENGINE"] == "django.db.backends.sqlite3":
        # A write transaction takes SQLite's lock when it begins, so that two writers wait for each
        # other and neither fails. With FULL, a prompt that was acknowledged survives a power cut.
        config["OPTIONS"] = {
            "transaction_mode": "IMMEDIATE",
            "timeout": 20,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
        }
        # The test database is a file, because streaming code writes in several threads, and threads
        # cannot share a database in memory.
        config["TEST"] = {"NAME": str(data_folder / "test.sqlite3")}
    else:
        # This backend is Django's, with a pool that survives a restart of the server.
        config["ENGINE"] = "storyengine.stack.postgresql"
        # Under ASGI, each request runs in a new thread, which would need a new connection. The pool
        # keeps connections open for such threads. If a request waits longer than `timeout` for a
        # connection, its answer is that the database cannot be reached. A longer
        # `reconnect_timeout` would let the pool wait longer and longer between its tries, so that
        # it would notice late that the database is back.
        # Each thread of a worker needs a connection, and so do its heartbeat and its sweep.
        usual = max(20, worker_threads() + 8)
        most = read_number("STORYENGINE_DATABASE_POOL", usual, minimum=4, maximum=1_000)
        pool = {"min_size": 1, "max_size": most, "timeout": 10.0, "reconnect_timeout": 10.0}
        # These limits end the wait for a server whose machine is gone. `connect_timeout` is in
        # seconds, and `tcp_user_timeout` in milliseconds.
        patience = {"connect_timeout": 5, "tcp_user_timeout": 15_000}
        config["OPTIONS"] = {**patience, **config.get("OPTIONS", {}), "pool": pool}
        # pgbouncer may give each transaction another connection to the server, and a cursor lives
        # on one of them. So behind pgbouncer no cursors of the server are used, and long answers
        # are read into memory as a whole. Prepared statements need no setting, because Django makes
        # none.
        config["DISABLE_SERVER_SIDE_CURSORS"] = read_bool("STORYENGINE_PGBOUNCER")
    return config


def read_direct_database() -> dict[str, Any] | None:
    """Return Django's settings for the way to PostgreSQL past pgbouncer, or None if no such way is
    set."""
    if not (url := read_text("STORYENGINE_DIRECT_DATABASE_URL")):
        return None
    config = _parse_database_url(url, "STORYENGINE_DIRECT_DATABASE_URL")
    if config["ENGINE"] == "django.db.backends.sqlite3":
        raise ImproperlyConfigured(
            "STORYENGINE_DIRECT_DATABASE_URL must name a database on PostgreSQL."
        )
    # An address without options leaves this key out, and Django's own code expects it.
    return {"OPTIONS": {}, **config}


def _parse_database_url(url: str, name: str = "DATABASE_URL") -> dict[str, Any]:
    # The value may contain a password, so no message may repeat the value. The parser warns of an
    # unknown scheme and repeats the value, so the scheme is checked first.
    hint = f"{name} must look like postgres://user:password@host:5432/name"
    if url.partition("://")[0] not in DATABASE_SCHEMES:
        raise ImproperlyConfigured(hint)
    try:
        config: dict[str, Any] = dict(environ.Env.db_url_config(url))
    except ValueError as error:
        raise ImproperlyConfigured(hint) from error
    if not config.get("NAME"):
        raise ImproperlyConfigured(hint)
    return config


def read_secret_key(data_folder: Path) -> str:
    """Return SECRET_KEY. If it is not set, return a random key. The data folder keeps this key, so
    that logins are still valid after a restart."""
    if key := read_text("SECRET_KEY"):
        return key
    path = data_folder / "secret-key"
    if not path.exists():
        _write_once(path, secrets.token_urlsafe(50))
    if key := path.read_text().strip():
        return key
    raise ImproperlyConfigured(f"{path} is empty. Delete it or set SECRET_KEY.")


def _write_once(path: Path, text: str) -> None:
    """Write a private file completely or not at all. If two processes write the file at the same
    time, the text that is written first is kept."""
    # mkstemp creates a file that only its owner can read. os.link never replaces an existing file.
    handle, draft = tempfile.mkstemp(dir=path.parent)
    try:
        with open(handle, "w") as file:
            file.write(text)
        os.link(draft, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(draft)
