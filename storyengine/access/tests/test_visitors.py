"""Tests of the visitors' addresses by which the program counts wrong passwords and tokens."""

import pytest
from django.conf import settings as django_settings
from django.http import HttpRequest
from django.test import Client
from pytest_django import Settings

from storyengine.access.visitors import counted_address

TRIES = django_settings.AXES_FAILURE_LIMIT
TOKEN = "token-of-the-test-0123456789"


@pytest.mark.parametrize(
    ("address", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::"),
        ("2001:db8:1:2::", "2001:db8:1:2::"),
        ("2001:db8:1:3::1", "2001:db8:1:3::"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("::ffff:c000:207", "192.0.2.7"),
        ("::1", "::"),
        ("fe80::1%eth0", "fe80::"),
        ("", None),
        ("unknown", None),
    ],
)
def test_ipv6_counts_by_its_network(address: str, counted: str | None) -> None:
    request = HttpRequest()
    request.META["REMOTE_ADDR"] = address
    assert counted_address(request) == counted


def test_one_of_no_address_counts_too() -> None:
    assert counted_address(HttpRequest()) is None


@pytest.mark.django_db
class TestPauses:
    @pytest.fixture(autouse=True)
    def _token(self, settings: Settings, password: str) -> None:
        settings.API_TOKEN = TOKEN

    def log_in(self, address: str, password: str) -> int:
        return Client(REMOTE_ADDR=address).post("/login", {"password": password}).status_code

    def call(self, address: str, token: str) -> int:
        headers = {"Authorization": f"Bearer {token}"}
        return Client(REMOTE_ADDR=address).get("/api/openapi.json", headers=headers).status_code

    def test_another_address_of_the_network_ends_none(self, password: str) -> None:
        for at in range(TRIES):
            self.log_in(f"2001:db8:1:2::{at:x}", "guess")
            self.call(f"2001:db8:1:2:{at:x}::", "guess")
        assert self.log_in("2001:db8:1:2:ffff::", password) == 429
        assert self.call("2001:db8:1:2:ffff::", TOKEN) == 429
        assert self.log_in("2001:db8:1:3::", password) == 302
        assert self.call("2001:db8:1:3::", TOKEN) == 200

    def test_nor_does_another_way_to_write_it(self, password: str) -> None:
        for _ in range(TRIES):
            self.log_in("::ffff:192.0.2.7", "guess")
        assert self.log_in("192.0.2.7", password) == 429

    def test_what_a_visitor_says_of_his_address_counts_for_nothing(self, password: str) -> None:
        """Django ignores the headers in which a request names its sender's address. Only the server
        reads such a header, and only if the request comes from a known proxy."""
        for at in range(TRIES):
            written = {name: f"203.0.113.{at}" for name in ("X-Forwarded-For", "X-Real-IP")}
            visitor = Client(headers=written | {"Forwarded": f"for=203.0.113.{at}"})
            visitor.post("/login", {"password": "guess"})
            visitor.get("/api/openapi.json", headers={"Authorization": "Bearer guess"})
        assert self.log_in("127.0.0.1", password) == 429
        assert self.call("127.0.0.1", TOKEN) == 429

    def test_who_has_no_address_is_counted(self, password: str) -> None:
        for _ in range(TRIES):
            self.log_in("unknown", "guess")
        assert self.log_in("unknown", password) == 429
