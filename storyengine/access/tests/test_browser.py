"""Tests that Django's middleware works in the event loop as it does in a thread."""

from typing import Any

import pytest
from asgiref.sync import SyncToAsync, async_to_sync
from django.test import AsyncClient

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("no_password")]


@pytest.fixture
def hops(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the name of each function that async code runs in a thread."""
    names: list[str] = []
    run = SyncToAsync.__call__

    async def note(self: Any, *args: Any, **kwargs: Any) -> Any:
        names.append(getattr(self.func, "__qualname__", ""))
        return await run(self, *args, **kwargs)

    monkeypatch.setattr(SyncToAsync, "__call__", note)
    return names


def test_a_session_that_changed_is_stored(
    async_client: AsyncClient, hops: list[str], password: str
) -> None:
    response = async_to_sync(async_client.post)("/login", {"password": password})
    assert "storyengine_session" in response.cookies
    assert "SessionMiddleware.process_response" in hops
    assert async_to_sync(async_client.get)("/admin/").status_code == 200


def test_a_form_without_its_token_is_refused() -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    assert async_to_sync(client.post)("/chapters/new").status_code == 403


def test_a_form_with_its_token_is_accepted() -> None:
    client = AsyncClient(enforce_csrf_checks=True)
    async_to_sync(client.get)("/")
    token = client.cookies["storyengine_csrf"].value
    response = async_to_sync(client.post)("/chapters/new", {"csrfmiddlewaretoken": token})
    assert response.status_code == 302
