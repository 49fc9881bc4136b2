"""Addresses of Tab 3 that keep what is looked at."""

from collections.abc import Mapping
from typing import Protocol
from urllib.parse import urlencode

from django import template

register = template.Library()


class NamesWhatItShows(Protocol):
    """A page whose address names what it shows."""

    @property
    def names(self) -> Mapping[str, int | str]: ...


@register.simple_tag
def naming(page: NamesWhatItShows, **changes: int | str) -> str:
    """The query of an address that names what the page shows, but for `changes`; "" unnames."""
    names = {name: value for name, value in {**page.names, **changes}.items() if value != ""}
    return f"?{urlencode(names)}" if names else ""
