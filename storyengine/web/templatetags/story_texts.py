"""Template tags for the direction and the language of texts of the story.

The tags are built into every template. A text has the direction of its own words, paragraph by
paragraph. A name or a title within a sentence of the page stands in <bdi>, or in an attribute with
`isolated`, so that it does not change the direction of the sentence.
"""

import unicodedata

from django import template
from django.template.context import Context
from django.utils.html import format_html
from django.utils.safestring import SafeString

from sessions.models import Session

register = template.Library()

_FIRST_STRONG, _POP = "\N{FIRST STRONG ISOLATE}", "\N{POP DIRECTIONAL ISOLATE}"


@register.simple_tag(takes_context=True)
def of_story(context: Context, chapter: Session | None = None) -> SafeString:
    """Return the attributes of an element that has a text of the chapter's story. Without a
    chapter, the page's chapter is meant."""
    return told_in((chapter or context["chapter"]).told_language)


@register.simple_tag
def told_in(language: str) -> SafeString:
    """Return the attributes of an element that has a text in this language, or in an unknown one
    if it is ""."""
    direction = SafeString('dir="auto"')
    return format_html('{} lang="{}"', direction, language) if language else direction


@register.filter
def isolated(name: str) -> str:
    """Return the name with signs that keep its direction to itself, if it is read from the
    right."""
    from_right = any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in name)
    return f"{_FIRST_STRONG}{name}{_POP}" if from_right else name
