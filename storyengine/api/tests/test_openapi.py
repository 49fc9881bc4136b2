import json
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from storyengine.api.app import api
from storyengine.books.formats import FORMATS

EXPECTED = {
    "/api/starters": {"get"},
    "/api/story": {"get", "post"},
    "/api/story/{story_id}": {"get", "patch", "delete"},
    "/api/story/{story_id}/restore": {"post"},
    "/api/story/{story_id}/text": {"get"},
    "/api/story/{story_id}/export": {"get"},
    "/api/story/import": {"post"},
    "/api/story/{story_id}/chapter": {"post"},
    "/api/session": {"get", "post"},
    "/api/session/import": {"post"},
    "/api/session/{session_id}/export": {"get"},
    "/api/session/{session_id}/fork": {"post"},
    "/api/session/{session_id}": {"get", "patch", "delete"},
    "/api/session/{session_id}/tab1": {"get", "put"},
    "/api/session/{session_id}/setup": {"get", "put", "patch"},
    "/api/session/{session_id}/scenario": {"get", "put"},
    "/api/session/{session_id}/world": {"get"},
    "/api/session/{session_id}/lock": {"post"},
    "/api/session/{session_id}/prompt": {"post"},
    "/api/session/{session_id}/act": {"post"},
    "/api/session/{session_id}/stop": {"post"},
    "/api/session/{session_id}/keep": {"post"},
    "/api/session/{session_id}/reroll": {"post"},
    "/api/session/{session_id}/turns/{number}": {"get"},
    "/api/session/{session_id}/turns/{number}/choose": {"post"},
    "/api/session/{session_id}/turns/{number}/edit": {"post"},
    "/api/session/{session_id}/end": {"post"},
    "/api/session/{session_id}/retry-summary": {"post"},
    "/api/session/{session_id}/reopen": {"post"},
    "/api/session/{session_id}/narrative-agent": {"put"},
    "/api/session/{session_id}/build-estimate": {"get"},
    "/api/session/{session_id}/build-narrative": {"post"},
    "/api/session/{session_id}/text": {"get"},
    "/api/session/{session_id}/drafts/{draft_id}/receipts": {"get"},
    "/api/session/{session_id}/drafts/{draft_id}/working-copy": {"get", "put", "delete"},
    "/api/session/{session_id}/drafts/{draft_id}/working-copy/keep": {"post"},
    "/api/session/{session_id}/drafts/{draft_id}/differences/{new_draft_id}": {"get"},
    "/api/session/{session_id}/chosen-draft": {"get", "put", "delete"},
    "/api/session/{session_id}/drafts/{draft_id}/scenes/{number}/rebuild": {"post"},
    "/api/session/{session_id}/drafts/{draft_id}/scenes/{number}/rebuild-estimate": {"get"},
    "/api/session/{session_id}/cancel": {"post"},
    "/api/session/{session_id}/reset": {"post"},
    "/api/session/{session_id}/copy": {"post"},
    "/api/session/{session_id}/restore": {"post"},
    "/api/session/{session_id}/before/renew": {"post"},
    "/api/session/{session_id}/before/keep": {"post"},
    "/api/session/{session_id}/now": {"get"},
    "/api/session/{session_id}/search": {"get"},
    "/api/session/{session_id}/calls": {"get"},
    "/api/session/{session_id}/dry-run": {"post"},
    "/api/session/{session_id}/trial": {"get", "post"},
    "/api/session/{session_id}/trial/{trial_id}": {"get"},
    "/api/session/{session_id}/trial/{trial_id}/stop": {"post"},
    "/api/session/{session_id}/trial/{trial_id}/adopt": {"post"},
    "/api/session/{session_id}/canon-correction": {"post"},
    "/api/session/{session_id}/answer": {"post"},
    "/api/consent": {"get", "post"},
    "/api/session/{session_id}/models": {"get", "put"},
    "/api/models": {"get", "put"},
    "/api/models/test": {"post"},
    "/api/servers": {"get", "post", "delete"},
}


@pytest.fixture(scope="module")
def schema() -> Any:
    response = Client().get("/api/openapi.json")
    assert response.status_code == 200
    return json.loads(response.content)


def operations(schema: Any) -> list[Any]:
    return [operation for methods in schema["paths"].values() for operation in methods.values()]


def test_it_is_made_once() -> None:
    assert api.get_openapi_schema() is api.get_openapi_schema()


def test_every_path_is_listed(schema: Any) -> None:
    assert {path: set(methods) for path, methods in schema["paths"].items()} == EXPECTED


def test_every_operation_has_an_id_of_its_own_and_a_description(schema: Any) -> None:
    names = [operation["operationId"] for operation in operations(schema)]
    assert len(names) == len(set(names))
    assert all(operation["description"] for operation in operations(schema))


def test_every_answer_is_typed_and_every_error_is_a_problem(schema: Any) -> None:
    for operation in operations(schema):
        for status, answer in operation["responses"].items():
            if status == "204":
                continue
            media = set(answer["content"])
            if int(status) >= 400:
                assert media == {"application/problem+json"}
            else:
                files = {one.media_type for one in FORMATS}
                assert media == files or media <= {"application/json", "text/event-stream"}
            for content in answer["content"].values():
                assert content["schema"]


def test_every_reference_leads_somewhere(schema: Any) -> None:
    known = {f"#/components/schemas/{name}" for name in schema["components"]["schemas"]}

    def references(part: Any) -> set[str]:
        if isinstance(part, dict):
            own = {part["$ref"]} if "$ref" in part else set()
            return own.union(*(references(value) for value in part.values()))
        if isinstance(part, list):
            return set().union(*(references(value) for value in part))
        return set()

    assert references(schema) <= known


def test_replies_are_described_in_both_forms(schema: Any) -> None:
    for action in ("prompt", "reroll"):
        post = schema["paths"][f"/api/session/{{session_id}}/{action}"]["post"]
        assert set(post["responses"]["200"]["content"]) == {"text/event-stream"}
        assert set(post["responses"]["201"]["content"]) == {"application/json"}
        assert "Idempotency-Key" in {parameter["name"] for parameter in post["parameters"]}


def test_the_token_is_described(schema: Any) -> None:
    assert schema["components"]["securitySchemes"] == {
        "token": {"type": "http", "scheme": "bearer"}
    }


class _Inline(HTMLParser):
    """A parser that collects what a strict Content-Security-Policy would block: inline scripts and
    styles, and addresses of other servers."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = dict(attrs)
        is_data = names.get("type") == "application/json"
        if tag == "style" or (tag == "script" and "src" not in names and not is_data):
            self.found.append(tag)
        self.found += [name for name in names if name == "style" or name.startswith("on")]
        for name in ("src", "href"):
            if str(names.get(name) or "").startswith(("http", "//", "data:")):
                self.found.append(f"{tag} {name}")


def test_the_documentation_needs_nothing_inline_and_nothing_from_elsewhere() -> None:
    response = Client().get("/api/docs")
    assert response.status_code == 200
    page = _Inline()
    page.feed(response.content.decode())
    assert page.found == []
    # Without this setting, the page would ask another server to validate the schema.
    assert '"validatorUrl": null' in response.content.decode()
