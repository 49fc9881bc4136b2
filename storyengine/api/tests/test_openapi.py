import json
from html.parser import HTMLParser
from typing import Any

import pytest
from django.test import Client

from storyengine.books.formats import FORMATS


@pytest.fixture(scope="module")
def schema() -> Any:
    response = Client().get("/api/openapi.json")
    assert response.status_code == 200
    return json.loads(response.content)


def operations(schema: Any) -> list[Any]:
    return [operation for methods in schema["paths"].values() for operation in methods.values()]


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
