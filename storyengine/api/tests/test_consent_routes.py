from typing import Any

import pytest

from agents.llm.providers.scripted import ScriptedProvider
from agents.models import ProviderConsent
from storyengine.api.tests.calling import assert_problem, call

pytestmark = pytest.mark.django_db


@pytest.fixture
def _foreign(provider: ScriptedProvider) -> None:
    provider.host = "models.example"


@pytest.mark.usefixtures("_foreign")
def test_a_host_is_allowed_and_withdrawn() -> None:
    assert call("GET", "/api/consent").json() == {
        "provider_host": "models.example",
        "provider_allowed": False,
        "hosts": [],
    }
    allowed = call("POST", "/api/consent", {"host": "models.example", "allowed": True})
    assert allowed.status_code == 200
    assert allowed.json()["provider_allowed"] is True
    assert [host["host"] for host in allowed.json()["hosts"]] == ["models.example"]
    assert call("GET", "/api/consent").json() == allowed.json()
    withdrawn = call("POST", "/api/consent", {"host": "models.example", "allowed": False})
    assert withdrawn.json()["hosts"] == []


@pytest.mark.usefixtures("_foreign")
@pytest.mark.parametrize(
    "body",
    [
        {"host": "other.example", "allowed": True},
        {"host": "", "allowed": True},
        {"host": "models.example", "allowed": "yes"},
        {"host": "models.example"},
        {"allowed": True},
        {"host": None, "allowed": True},
        {"host": "\ud800", "allowed": True},
        {"host": "models.example\x00", "allowed": True},
        {},
    ],
)
def test_what_is_wrong_is_refused(body: Any) -> None:
    assert_problem(call("POST", "/api/consent", body), 422, "invalid-input")
    assert not ProviderConsent.objects.exists()


@pytest.mark.usefixtures("_foreign")
@pytest.mark.parametrize("is_allowed", [True, False])
def test_a_host_of_any_length_is_not_looked_up(is_allowed: bool) -> None:
    body = {"host": "x" * 254, "allowed": is_allowed}
    assert_problem(call("POST", "/api/consent", body), 422, "too-long")
