"""Where the server listens."""

import pytest
from pytest_django import Settings

from storyengine.access.listening import PortTaken, open_listener


def test_without_a_password_only_this_machine_is_served(settings: Settings, free_port: int) -> None:
    settings.PASSWORD = ""
    with open_listener() as listener:
        assert listener.getsockname() == ("127.0.0.1", free_port)


def test_with_a_password_every_address_is(settings: Settings, free_port: int) -> None:
    settings.PASSWORD = "correct horse"
    with open_listener() as listener:
        assert listener.getsockname() == ("0.0.0.0", free_port)  # noqa: S104


def test_a_taken_port_is_said_plainly(settings: Settings, free_port: int) -> None:
    with open_listener() as listener:
        listener.listen()
        with pytest.raises(PortTaken, match=f"Port {free_port} is taken.*PORT={free_port + 1}"):
            open_listener()
