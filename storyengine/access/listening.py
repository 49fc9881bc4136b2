"""Where the web server listens."""

import errno
import socket

from django.conf import settings


class PortTaken(OSError):
    """Another program listens there; the message says what to do."""


def listening_host() -> str:
    """All addresses only behind a password."""
    return "0.0.0.0" if settings.PASSWORD else "127.0.0.1"  # noqa: S104


def open_listener() -> socket.socket:
    """A bound socket; raises PortTaken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((listening_host(), settings.PORT))
    except OSError as error:
        listener.close()
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise
        reason = "is taken" if error.errno == errno.EADDRINUSE else "is not allowed to this user"
        raise PortTaken(
            f"Port {settings.PORT} {reason}. If Story Engine is not running there already, "
            f"choose another one: make run PORT={settings.PORT % 65_535 + 1}"
        ) from error
    return listener
