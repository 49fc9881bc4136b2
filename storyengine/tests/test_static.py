"""Tests of the collected static files and of serving them."""

import json
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from pytest_django import Settings

from storyengine.asgi import with_collected_files


@pytest.fixture
def collected(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """Return the manifest of the collected files: each file's name and the name under which it is
    served."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.ManifestStaticFilesStorage"}
    }
    # This command fails if a style sheet names a file that does not exist.
    call_command("collectstatic", interactive=False, verbosity=0)
    paths: dict[str, str] = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    return paths


async def django(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@async_to_sync
async def get(folder: Path, path: str) -> tuple[int, dict[bytes, bytes]]:
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await with_collected_files(django, folder)(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"])


def test_every_file_of_the_pages_gets_a_name_from_its_content(
    settings: Settings, collected: dict[str, str]
) -> None:
    (ours,) = settings.STATICFILES_DIRS
    names = [str(file.relative_to(ours)) for file in Path(ours).rglob("*.*")]
    assert names
    assert [name for name in names if collected[name] == name] == []


def test_such_a_file_may_be_kept_for_good(collected: dict[str, str], tmp_path: Path) -> None:
    status, headers = get(tmp_path, "/static/" + collected["css/base.css"])
    assert status == 200
    assert b"immutable" in headers[b"cache-control"]
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"content-type"].startswith(b"text/css")


def test_it_is_not_offered_to_other_sites(collected: dict[str, str], tmp_path: Path) -> None:
    _, headers = get(tmp_path, "/static/icon.svg")
    assert b"access-control-allow-origin" not in headers


@pytest.mark.parametrize("path", ["/", "/static/../manage.py", "/static/no-such-file.css"])
def test_everything_else_is_django_s(collected: dict[str, str], tmp_path: Path, path: str) -> None:
    assert get(tmp_path, path)[0] == 204
