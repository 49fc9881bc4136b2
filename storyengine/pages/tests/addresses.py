"""Addresses of pages in tests, and what is served there."""

from typing import Any
from urllib.parse import urlencode

from django.test import Client
from django.urls import reverse

from sessions.models import Session


def address(chapter: Session, name: str, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=[chapter.pk, *arguments])


def get_page(client: Client, chapter: Session, name: str, **query: str) -> str:
    """What is served at that address, in full."""
    response = client.get(f"{address(chapter, name)}?{urlencode(query)}")
    assert response.status_code == 200
    return response.content.decode()
