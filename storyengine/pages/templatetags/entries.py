"""The transcript's entries as HTML.

In Python, because a window may hold a thousand short entries and is rendered after every reply.
"""

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from sessions.transcript import Entry

register = template.Library()


@register.filter
def as_paragraphs(entries: Iterable[Entry]) -> SafeString:
    """One paragraph each, so that a copy of the page has two line breaks between entries."""
    return mark_safe("".join(map(_paragraph, entries)))  # noqa: S308 - every part is escaped


def _paragraph(entry: Entry) -> str:
    color = f" agent-{escape(entry.character.color)}" if entry.character else ""
    return f'<p class="entry{color}"><b>{escape(entry.prefix)}</b>{escape(entry.text)}</p>'
