import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from django.core.cache import cache
from pytest_django import Settings

from storyengine.access.game_master import store_password_once
from storyengine.access.tests.serving import Serve, Served, Visitors

PASSWORD = "correct horse battery staple"


@pytest.fixture
def password(settings: Settings, db: None) -> Iterator[str]:
    """Set the program's password, and yield it."""
    settings.PASSWORD = PASSWORD
    # Hashing is made fast, because these tests store no password that needs protection.
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    store_password_once.cache_clear()
    cache.clear()
    yield PASSWORD
    store_password_once.cache_clear()
    cache.clear()


@pytest.fixture
def no_password(settings: Settings) -> None:
    settings.PASSWORD = ""


@pytest.fixture
def free_port(settings: Settings) -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    settings.PORT = port
    return port


@pytest.fixture
def serve() -> Iterator[Serve]:
    with ExitStack() as stack:

        def start(most: int = 100) -> tuple[Served, Visitors]:
            served = Served(most)
            served.thread.start()
            stack.callback(served.thread.join)
            stack.callback(setattr, served.server, "should_exit", True)
            stack.callback(served.may_end.set)
            return served, Visitors(served.port, stack)

        yield start
