"""Renders the transcript's entries as HTML.

The window may have a thousand short entries, and all of them are rendered after every reply. Python
code renders them faster than a template.
"""

import uuid
from collections.abc import Iterable

from django import template
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

from sessions.models import Event
from sessions.roster import Character
from sessions.transcript import Entry

register = template.Library()

# The mark of an attempt that is not chosen. The style sheet draws the mark, so that a user who
# copies text from the page does not copy it.
_NOT_CHOSEN = '<span class="not-chosen-mark" role="img" aria-label="Not chosen."></span>'
_THOUGHT = '<span class="thought-mark" role="img" aria-label="Thought."></span>'


@register.filter
def as_paragraphs(entries: Iterable[Entry], session_id: uuid.UUID) -> SafeString:
    """Return the entries as paragraphs, so that there are two line breaks between entries in text
    that a user copies."""
    calls = reverse("pages:prompt-calls", args=[session_id, 0]).removesuffix("0")
    forks = reverse("pages:confirm-fork", args=[session_id, 0]).removesuffix("0")
    shown = list(entries)
    # A fork begins after a turn, so the last entry of a turn's chosen attempt has the link.
    ends = {entry.prompt_index: at for at, entry in enumerate(shown) if entry.is_chosen}
    html = "".join(
        _paragraph(entry, calls, forks if ends.get(entry.prompt_index) == at else "")
        for at, entry in enumerate(shown)
    )
    return mark_safe(html)  # noqa: S308 - every part is escaped


def _paragraph(entry: Entry, calls: str, forks: str) -> str:
    """Return an entry as HTML. `forks` is the address for the link to a fork, or "" if the entry
    has no such link."""
    color = f" agent-{escape(entry.character.color)}" if entry.character else ""
    # Pages about memory link to this anchor.
    is_place = entry.role == Event.Role.USER and entry.is_chosen
    anchor = f' id="prompt-{entry.prompt_index}"' if is_place else ""
    is_reply = entry.role == Event.Role.AGENT and not entry.is_thought
    link = _link(entry.character, entry.prompt_index, calls) if is_reply else ""
    words = f"<b>{escape(entry.prefix)}</b>{escape(entry.text)}"
    other, mark = ("", "") if entry.is_chosen else (" not-chosen", _NOT_CHOSEN)
    if entry.is_thought:
        other, mark = f"{other} thought", mark + _THOUGHT
    perceived = _perceived(entry.perceived_by) if entry.perceived_by else ""
    fork = _fork_link(entry.prompt_index, forks) if forks else ""
    return f'<p class="entry{color}{other}"{anchor}>{mark}{words}{perceived}{link}{fork}</p>'


def _perceived(names: str) -> str:
    """Return HTML with the names of the witnesses of an entry.

    The style sheet draws the names, so that a user who copies the text does not copy them.
    """
    by = escape(names)
    label = f'role="img" aria-label="Perceived by {by}."'
    return f'<span class="perceived" {label} data-by="{by}"></span>'


def _link(speaker: Character | None, prompt_index: int, calls: str) -> str:
    """Return a link to the page that shows the request for this reply.

    The style sheet draws the words of the link, so that a user who copies the text does not copy
    them.
    """
    label = f"What {speaker.name if speaker else 'the model'} saw at prompt {prompt_index}"
    return f'<a class="saw" href="{calls}{prompt_index}" aria-label="{escape(label)}"></a>'


def _fork_link(prompt_index: int, forks: str) -> str:
    label = f"Fork from here, after prompt {prompt_index}"
    return f'<a class="fork" href="{forks}{prompt_index}" aria-label="{label}"></a>'
