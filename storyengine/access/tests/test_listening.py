"""Tests of the address and port at which the server listens."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest
from pytest_django import Settings

from storyengine.access.listening import (
    CannotListen,
    describe_address,
    is_beyond_loopback,
    open_listeners,
)

EVERY_IPV4 = "0.0.0.0"  # noqa: S104


@contextmanager
def opened() -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(listener) for listener in open_listeners()]


@pytest.mark.parametrize(
    ("password", "host", "addresses", "said"),
    [
        ("", "", ["127.0.0.1"], "http://localhost:{port} (on this machine only)"),
        ("", "127.0.0.2", ["127.0.0.2"], "http://127.0.0.2:{port} (on this machine only)"),
        ("", "::1", ["::1"], "http://[::1]:{port} (on this machine only)"),
        (
            *("12-of-them--", "", [EVERY_IPV4]),
            "http://localhost:{port} (on every address of this machine)",
        ),
        (
            *("11-of-them-", "", ["127.0.0.1"]),
            "http://localhost:{port} (on this machine only, because STORYENGINE_PASSWORD is short)",
        ),
        (
            *("secret", EVERY_IPV4, [EVERY_IPV4]),
            "http://localhost:{port} (on every address of this machine)",
        ),
        ("secret", "127.0.0.1", ["127.0.0.1"], "http://localhost:{port} (on this machine only)"),
        (
            *("secret", "::", [EVERY_IPV4, "::"]),
            "http://localhost:{port} (on every address of this machine)",
        ),
    ],
)
def test_it_listens_where_it_says_so(
    settings: Settings,
    free_port: int,
    password: str,
    host: str,
    addresses: list[str],
    said: str,
) -> None:
    if ":" in host and not has_ipv6():
        pytest.skip("no IPv6 on this machine")
    settings.PASSWORD, settings.HOST = password, host
    with opened() as listeners:
        assert [listener.getsockname()[:2] for listener in listeners] == [
            (address, free_port) for address in addresses
        ]
    assert describe_address() == said.format(port=free_port)
    assert is_beyond_loopback() == (EVERY_IPV4 in addresses)


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


def test_a_taken_port_is_said_plainly(settings: Settings, free_port: int) -> None:
    with opened() as (listener,):
        listener.listen()
        with pytest.raises(CannotListen, match=f"Port {free_port} is taken.*PORT={free_port + 1}"):
            open_listeners()
