"""Functions by which tests read pages: their elements, and the words that a person sees."""

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urlencode

from django.test import Client

from sessions.models import Session
from storyengine.tabs.tests.addresses import address

_VOID = {"meta", "link", "input", "img", "br", "hr"}


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parents: list["Element"]
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    @property
    def words(self) -> str:
        return " ".join(self.text.split())

    def has_class(self, name: str) -> bool:
        return name in self.attributes.get("class", "").split()


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.open: list[Element] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        element = Element(tag, attributes, list(self.open))
        self.elements.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.texts.append(data)


def read(html: str) -> list[Element]:
    """Return all elements of a page in order. Fail if the page's tags are not properly nested."""
    reader = _Reader()
    reader.feed(re.sub(r"<path[^>]*/>", "", html))
    reader.close()
    assert not reader.open, f"<{reader.open[-1].tag}> is never closed"
    return reader.elements


def by_id(html: str, element_id: str) -> Element:
    [found] = [one for one in read(html) if one.attributes.get("id") == element_id]
    return found


def all_of(html: str, tag: str, class_name: str = "", **attributes: str) -> list[Element]:
    return [
        one
        for one in read(html)
        if one.tag == tag
        and (not class_name or one.has_class(class_name))
        and attributes.items() <= one.attributes.items()
    ]


def get_page(client: Client, chapter: Session, name: str, **query: str) -> str:
    """Return the HTML of this page of the chapter. Fail if its status is not 200."""
    response = client.get(f"{address(chapter, name)}?{urlencode(query)}")
    assert response.status_code == 200
    return response.content.decode()


def prose_of(html: str) -> str:
    """Return the text of the draft that Tab 3 shows, without the receipts beside it."""
    return "\n\n".join(one.text for one in read(html) if one.has_class("told-text"))


def fields_of(html: str, form_id: str) -> dict[str, str]:
    """Return the fields that a browser without scripts sends with this form if the user changes
    nothing."""
    elements = read(html.replace("<noscript>", "").replace("</noscript>", ""))
    form = next(one for one in elements if one.attributes.get("id") == form_id)
    sent = {}
    for one in elements:
        name = one.attributes.get("name")
        if form not in one.parents or name is None:
            continue
        if one.tag == "textarea":
            sent[name] = one.text.removeprefix("\n").replace("\n", "\r\n")
        elif one.tag == "select":
            options = [of for of in elements if of.tag == "option" and one in of.parents]
            chosen = next((of for of in options if "selected" in of.attributes), options[0])
            sent[name] = chosen.attributes["value"]
        elif one.attributes.get("type") != "radio" or "checked" in one.attributes:
            sent[name] = one.attributes.get("value", "")
    return sent
