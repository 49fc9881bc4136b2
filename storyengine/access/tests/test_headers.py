"""Tests of the headers that every answer has, whether it is a page or a refusal."""

import re
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.conf import settings as django_settings
from django.test import AsyncClient, Client
from django.utils.module_loading import import_string

TEMPLATES = Path(django_settings.BASE_DIR) / "templates"


@pytest.mark.django_db
@pytest.mark.usefixtures("no_password")
class TestHeaders:
    @pytest.mark.parametrize(
        "path", ["/", "/healthz", "/admin/", "/api/openapi.json", "/no-such-page"]
    )
    def test_every_answer_forbids_inline_script_and_framing(
        self, client: Client, path: str
    ) -> None:
        response = client.get(path)
        policy = dict(
            part.strip().partition(" ")[::2]
            for part in response["Content-Security-Policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == "'self'"
        assert policy["style-src"] == "'self'"
        assert policy["frame-ancestors"] == "'none'"
        assert "unsafe" not in response["Content-Security-Policy"]
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response["Referrer-Policy"] == "same-origin"
        assert "camera=()" in response["Permissions-Policy"]

    def test_a_refused_host_carries_them_too(self, client: Client) -> None:
        response = client.get("/", headers={"Host": "evil.example"})
        assert "Content-Security-Policy" in response

    def test_they_are_there_under_asgi(self, async_client: AsyncClient) -> None:
        response = async_to_sync(async_client.get)("/healthz")
        assert "Content-Security-Policy" in response


def test_every_middleware_runs_in_the_event_loop() -> None:
    for path in django_settings.MIDDLEWARE:
        middleware = import_string(path)
        assert getattr(middleware, "async_capable", False), path
        assert getattr(middleware, "sync_capable", True), path


@pytest.mark.parametrize("path", sorted(TEMPLATES.rglob("*.html")), ids=lambda path: path.name)
def test_no_template_needs_what_the_policy_forbids(path: Path) -> None:
    text = re.sub(r"{%.*?%}", "", path.read_text(encoding="utf-8"))
    assert not re.search(r"<script(?![^>]*\bsrc=)", text)
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|hx-on", text)
