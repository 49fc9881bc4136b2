"""Renders the prose of drafts as HTML: headings, and emphasised words.

A model writes them with signs of Markdown. Everything else of the text is shown as it is.
"""

from collections.abc import Iterable

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from storyengine.web.prose import Span, heading_in, spans_of

register = template.Library()


@register.filter
def as_html(text: str) -> SafeString:
    """Return the text as HTML. Line breaks are kept, and have to be shown by the style sheet."""
    return mark_safe("\n".join(map(_line, str(text).split("\n"))))  # noqa: S308 (it is escaped)


def with_tags(line: Iterable[Span]) -> SafeString:
    """Return a line as HTML, with its emphasised words."""
    return mark_safe("".join(map(_tagged, line)))  # noqa: S308 (it is escaped)


def _line(line: str) -> str:
    words = heading_in(line)
    if words is None:
        return with_tags(spans_of(line))
    return (
        '<strong class="prose-heading" role="heading" aria-level="4">'
        f"{with_tags(spans_of(words))}</strong>"
    )


def _tagged(span: Span) -> str:
    html: str = escape(span.text)
    if span.is_emphasised:
        html = f"<em>{html}</em>"
    return f"<strong>{html}</strong>" if span.is_strong else html
