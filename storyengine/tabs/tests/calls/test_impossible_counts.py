"""Tests of counts of tokens that are too high for any call, which a server may report."""

from collections.abc import AsyncGenerator

import pytest
from django.test import Client

from agents.flows.tests.playing import play
from agents.llm.providers.base import Finished, ModelRequest, StreamPart, Usage
from agents.llm.providers.scripted import ScriptedProvider
from sessions.models import Attempt, Session
from storyengine.tabs.tests.addresses import address

PAGES = ("play", "world", "draft", "usage")


def check_pages(client: Client, chapter: Session) -> None:
    for name in PAGES:
        assert client.get(address(chapter, name)).status_code == 200, name
    assert client.get(f"/api/session/{chapter.pk}/calls").status_code == 200


class LyingProvider(ScriptedProvider):
    """A provider that reports for each call the largest number of tokens that 64 bits can hold."""

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamPart, None]:
        async for part in super().stream(request):
            yield (
                Finished(usage=Usage(2**64 - 1, 2**64 - 1)) if isinstance(part, Finished) else part
            )


@pytest.mark.django_db
def test_what_a_server_reports_now_leaves_the_pages_as_they_were(
    client: Client, chapter: Session, provider: ScriptedProvider
) -> None:
    provider.__class__ = LyingProvider
    for _ in range(2):
        assert play(chapter, slot=chapter.next_agent_slot).status == Attempt.Status.COMMITTED
    check_pages(client, chapter)
