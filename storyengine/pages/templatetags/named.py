"""Addresses of Tab 3 that keep what is looked at."""

from urllib.parse import urlencode

from django import template

from storyengine.pages.chapter import ChapterPage

register = template.Library()


@register.simple_tag
def naming(page: ChapterPage, **changes: int | str) -> str:
    """The query of an address that names what the page shows, but for `changes`; "" unnames."""
    names = {name: value for name, value in {**page.names, **changes}.items() if value != ""}
    return f"?{urlencode(names)}" if names else ""
