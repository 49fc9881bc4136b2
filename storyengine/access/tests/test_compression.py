"""Tests of which answers are compressed."""

import gzip
import re
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from sessions.tests.factories import make_active_chapter

pytestmark = pytest.mark.django_db

CSRF = re.compile(r'name="csrfmiddlewaretoken" value="([^"]+)"')


def get(client: Client, path: str = "/", **headers: str) -> Any:
    response = client.get(path, headers={"Accept-Encoding": "gzip, br", **headers})
    assert response.status_code == 200
    return response


def is_compressed(response: Any) -> bool:
    return bool(response.headers.get("Content-Encoding") == "gzip")


def test_a_page_is_compressed_and_says_the_same(client: Client) -> None:
    response = get(client)
    assert is_compressed(response)
    assert int(response["Content-Length"]) == len(response.content)
    page = gzip.decompress(response.content).decode()
    plain = client.get("/").content.decode()
    assert CSRF.sub("", page).split("hx-headers")[0] == CSRF.sub("", plain).split("hx-headers")[0]
    assert len(response.content) < len(plain) / 2


@pytest.mark.parametrize("accepted", ["", "br", "identity", "gzip;q=0", "br, gzip; q=0.0, zstd"])
def test_only_for_a_browser_that_takes_it(client: Client, accepted: str) -> None:
    response = client.get("/", headers={"Accept-Encoding": accepted})
    assert not is_compressed(response)
    assert "Accept-Encoding" in response["Vary"]


@pytest.mark.parametrize(
    ("site", "expected"), [("cross-site", False), ("same-origin", True), ("none", True)]
)
def test_what_another_site_asks_for_has_no_length_to_learn_from(
    client: Client, site: str, *, expected: bool
) -> None:
    assert is_compressed(get(client, **{"Sec-Fetch-Site": site})) is expected


def test_the_same_page_has_another_token_and_another_length_each_time(client: Client) -> None:
    responses = [get(client) for _ in range(12)]
    tokens = {CSRF.search(gzip.decompress(one.content).decode())[1] for one in responses}  # type: ignore[index]
    assert len(tokens) == len(responses)
    assert len({len(one.content) for one in responses}) > 3


def test_the_event_loop_answers_with_the_same(async_client: AsyncClient) -> None:
    response = async_to_sync(async_client.get)("/", headers={"Accept-Encoding": "gzip"})
    assert is_compressed(response)
    assert b"</html>" in gzip.decompress(response.content)


def test_a_short_answer_and_the_api_stay_as_they_are(client: Client) -> None:
    assert not is_compressed(get(client, "/healthz"))
    assert not is_compressed(get(client, f"/api/session/{make_active_chapter().pk}"))
