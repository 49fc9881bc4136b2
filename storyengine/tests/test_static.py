"""Tests of the collected static files and of serving them."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from pytest_django import Settings

from storyengine.asgi import with_collected_files


@pytest.fixture
def collected(settings: Settings, tmp_path: Path) -> dict[str, str]:
    """Return for each collected file the name under which it is served."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = settings.STORAGES | {
        "staticfiles": {"BACKEND": "storyengine.web.static_storage.CompressedStorage"}
    }
    # The command fails if a style sheet refers to a file that does not exist.
    call_command("collectstatic", interactive=False, verbosity=0)
    paths: dict[str, str] = json.loads((tmp_path / "staticfiles.json").read_text())["paths"]
    return paths


async def django(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True)
class Got:
    status: int
    headers: dict[bytes, bytes]
    body: bytes

    @property
    def size(self) -> int:
        """The bytes of the whole answer, its head included."""
        head = sum(len(name) + len(value) + 4 for name, value in self.headers.items())
        return len("HTTP/1.1 200 OK\r\n\r\n") + head + len(self.body)


@async_to_sync
async def get(folder: Path, path: str, accepted: bytes = b"") -> Got:
    scope = {
        "type": "http",
        "method": "GET",
        "path": path,
        "headers": [(b"accept-encoding", accepted)],
        "query_string": b"",
    }
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    await with_collected_files(django, folder)(scope, receive, send)
    body = b"".join(one.get("body", b"") for one in sent[1:])
    return Got(sent[0]["status"], dict(sent[0]["headers"]), body)


def test_every_file_of_the_pages_gets_a_name_from_its_content(
    settings: Settings, collected: dict[str, str]
) -> None:
    (ours,) = settings.STATICFILES_DIRS
    names = [str(file.relative_to(ours)) for file in Path(ours).rglob("*.*")]
    assert names
    assert [name for name in names if collected[name] == name] == []


def test_such_a_file_may_be_kept_for_good(collected: dict[str, str], tmp_path: Path) -> None:
    got = get(tmp_path, "/static/" + collected["css/base.css"])
    assert got.status == 200
    assert b"immutable" in got.headers[b"cache-control"]
    assert got.headers[b"x-content-type-options"] == b"nosniff"
    assert got.headers[b"content-type"].startswith(b"text/css")


def test_it_is_compressed_for_a_browser_that_takes_it(
    collected: dict[str, str], tmp_path: Path
) -> None:
    path = "/static/" + collected["css/base.css"]
    plain, packed = get(tmp_path, path), get(tmp_path, path, b"gzip, deflate, br")
    assert b"content-encoding" not in plain.headers
    assert packed.headers[b"content-encoding"] == b"gzip"
    assert b"immutable" in packed.headers[b"cache-control"]
    assert packed.headers[b"vary"] == b"Accept-Encoding"
    assert gzip.decompress(packed.body) == plain.body
    assert len(packed.body) < len(plain.body) / 2


def test_it_is_not_offered_to_other_sites(collected: dict[str, str], tmp_path: Path) -> None:
    assert b"access-control-allow-origin" not in get(tmp_path, "/static/icon.svg").headers


@pytest.mark.parametrize("path", ["/", "/static/../manage.py", "/static/no-such-file.css"])
def test_everything_else_is_django_s(collected: dict[str, str], tmp_path: Path, path: str) -> None:
    assert get(tmp_path, path).status == 204


def test_the_program_s_own_scripts_come_without_comments(
    settings: Settings, collected: dict[str, str], tmp_path: Path
) -> None:
    for source in (Path(settings.STATICFILES_DIRS[0]) / "js").glob("*.js"):
        script = source.read_text()
        # The storage takes each line by itself, so no text of a script may have several lines.
        assert all(line.count("`") % 2 == 0 for line in script.splitlines()), source
        served = get(tmp_path, "/static/" + collected[f"js/{source.name}"], b"identity").body
        assert script.splitlines()[0].startswith("//")
        assert b"// " not in served
        code = [line.strip() for line in script.splitlines() if not line.strip().startswith("//")]
        assert served.decode().split() == "\n".join(code).split()
