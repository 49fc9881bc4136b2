"""Builds addresses of Tab 3 that keep the page's draft and part of memory."""

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode

from django import template

register = template.Library()


class NamesWhatItShows(Protocol):
    """A page whose address names the parts of the chapter that it shows."""

    @property
    def names(self) -> Mapping[str, int | str]: ...


@register.simple_tag
def naming(page: NamesWhatItShows, **changes: int | str) -> str:
    """Return the query of the page's address with these `changes`. A change to "" removes a
    name."""
    names = {name: value for name, value in {**page.names, **changes}.items() if value != ""}
    return f"?{urlencode(names)}" if names else ""
