"""Builds the addresses of links on Tab 3, which keep the shown draft and the shown part of
memory."""

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode

from django import template

register = template.Library()


class NamesWhatItShows(Protocol):
    """A page whose address names what the page shows, such as a draft."""

    @property
    def names(self) -> Mapping[str, int | str]: ...


@register.simple_tag
def naming(page: NamesWhatItShows, **changes: int | str) -> str:
    """Return the query of the page's address, with these parameters changed. A change to "" removes
    the parameter."""
    names = {name: value for name, value in {**page.names, **changes}.items() if value != ""}
    return f"?{urlencode(names)}" if names else ""
