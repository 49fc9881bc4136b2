"""Renders the prose of drafts as HTML: headings, and emphasised words.

A model writes them with signs of Markdown. Everything else of the text is shown as it is.
"""

import re

from django import template
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

register = template.Library()

_HEADING = re.compile(r"[ \t]*#{1,6}[ \t]+(\S.*)")
# Words between signs of the same number: one for emphasis, two for strong emphasis, three for both.
# A single underscore inside a word or a single star between blanks is no mark. The length is
# limited, so that a row of signs is read in a time that is linear in its length.
_MARKED = re.compile(
    r"(?<![\w*_])(?P<mark>\*{1,3}|_{1,3})(?=[^\s*_])(?P<words>[^*_\n]{1,1000}?)(?<=\S)(?P=mark)"
    r"(?![\w*_])"
)
_TAGS = {1: ("<em>", "</em>"), 2: ("<strong>", "</strong>")}


@register.filter
def as_html(text: str) -> SafeString:
    """Return the text as HTML. Line breaks stay, and have to be shown by the style sheet."""
    return mark_safe("\n".join(map(_line, str(text).split("\n"))))  # noqa: S308 (it is escaped)


def _line(line: str) -> str:
    if heading := _HEADING.fullmatch(line):
        words = _emphasised(heading[1].rstrip(" #") or heading[1])
        return f'<strong class="prose-heading" role="heading" aria-level="4">{words}</strong>'
    return _emphasised(line)


def _emphasised(line: str) -> str:
    return _MARKED.sub(_tagged, escape(line))


def _tagged(found: re.Match[str]) -> str:
    count = len(found["mark"])
    tags = [_TAGS[count]] if count < 3 else [_TAGS[2], _TAGS[1]]
    opening = "".join(tag for tag, _ in tags)
    return f"{opening}{found['words']}{''.join(tag for _, tag in reversed(tags))}"
