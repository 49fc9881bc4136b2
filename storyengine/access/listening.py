"""Chooses and opens the addresses that the web server listens on."""

import errno
import socket
from ipaddress import ip_address

from django.conf import settings

# The fewest characters of a password or token that is hard to guess.
SHORTEST_GOOD_SECRET = 12
# The addresses that stand for all IPv4 addresses and for all IPv6 addresses.
_EVERY_IPV4, _EVERY_IPV6 = "0.0.0.0", "::"  # noqa: S104


class CannotListen(OSError):
    """The error for an address that cannot be opened. The message says why, and what to do."""


def listening_host() -> str:
    """Return the address on which to listen: STORYENGINE_HOST if it is set. Otherwise, if the
    password is long enough, return the address for all IPv4 addresses. Otherwise return
    loopback."""
    is_guarded = len(settings.PASSWORD) >= SHORTEST_GOOD_SECRET
    return settings.HOST or (_EVERY_IPV4 if is_guarded else "127.0.0.1")


def is_held_back() -> bool:
    """Return whether the server listens only on loopback because the password is too short."""
    return 0 < len(settings.PASSWORD) < SHORTEST_GOOD_SECRET and not settings.HOST


def is_beyond_loopback() -> bool:
    """Return whether other machines can reach the program directly, without a proxy on this
    machine."""
    return not ip_address(listening_host()).is_loopback


def describe_address() -> str:
    """Return a text that names the address for the browser, and says from where the server can be
    reached, such as "on this machine only"."""
    host = listening_host()
    if host in (_EVERY_IPV4, _EVERY_IPV6):
        name, reach = "localhost", "on every address of this machine"
    elif is_beyond_loopback():
        name, reach = host, "on this address alone"
    else:
        name, reach = ("localhost" if host == "127.0.0.1" else host), "on this machine only"
        reach += ", because STORYENGINE_PASSWORD is short" if is_held_back() else ""
    name = f"[{name}]" if ":" in name else name
    return f"http://{name}:{settings.PORT} ({reach})"


def open_listeners() -> list[socket.socket]:
    """Return a bound socket for each address. Raises CannotListen if an address cannot be
    opened."""
    host = listening_host()
    listeners: list[socket.socket] = []
    try:
        # IPv4 has a socket of its own, because an IPv6 socket would report IPv4 visitors by mapped
        # IPv6 addresses.
        for one in (_EVERY_IPV4, _EVERY_IPV6) if host == _EVERY_IPV6 else (host,):
            listeners.append(_open(one))
    except OSError as error:
        for opened in listeners:
            opened.close()
        if problem := _describe(error, host):
            raise CannotListen(problem) from error
        raise
    return listeners


def _open(host: str) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if listener.family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, settings.PORT))
    except OSError:
        listener.close()
        raise
    return listener


def _describe(error: OSError, host: str) -> str:
    if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
        way_on = "Set STORYENGINE_HOST to one that it has, or leave it out."
        return f"This machine has no address {host}. {way_on}"
    if error.errno not in (errno.EADDRINUSE, errno.EACCES):
        return ""
    reason = "is taken" if error.errno == errno.EADDRINUSE else "is not allowed to this user"
    return (
        f"Port {settings.PORT} {reason}. If Story Engine is not running there already, "
        f"choose another one: make run PORT={settings.PORT % 65_535 + 1}"
    )
