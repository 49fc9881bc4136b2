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

_THOUGHT = '<span class="thought-mark" role="img" aria-label="Thought."></span>'


@register.simple_tag
def paragraphs(
    entries: Iterable[Entry],
    session_id: uuid.UUID,
    open_turn: int | str = "",
    told_until: int | str = "",
) -> SafeString:
    """Return the entries as paragraphs, so that there are two line breaks between entries in text
    that a user copies.

    At the turn `open_turn`, the replies that are not chosen have a button by which they are chosen.
    Prompts up to `told_until`, the last one that a draft tells, have a link to their paragraphs in
    the draft.
    """
    calls = reverse("pages:prompt-calls", args=[session_id, 0]).removesuffix("0")
    forks = reverse("pages:confirm-fork", args=[session_id, 0]).removesuffix("0")
    told = reverse("pages:told", args=[session_id, 0]).removesuffix("0")
    shown = list(entries)
    # A fork begins after a turn, so the last entry of a turn's chosen attempt has the link.
    ends = {
        one.prompt_index if one.is_chosen else one.attempt_id: at for at, one in enumerate(shown)
    }

    def link_after(at: int, entry: Entry) -> str:
        if entry.is_chosen:
            if ends[entry.prompt_index] != at:
                return ""
            is_told = isinstance(told_until, int) and entry.prompt_index <= told_until
            link = _told_link(entry.prompt_index, told) if is_told else ""
            return _fork_link(entry.prompt_index, forks) + link
        is_end = entry.prompt_index == open_turn and ends[entry.attempt_id] == at
        return _use_button(entry) if is_end else ""

    html = "".join(_paragraph(one, calls, link_after(at, one)) for at, one in enumerate(shown))
    return mark_safe(html)  # noqa: S308 - every part is escaped


def _paragraph(entry: Entry, calls: str, link_after: str) -> str:
    color = f" agent-{escape(entry.character.color)}" if entry.character else ""
    # Pages about memory link to this anchor.
    is_place = entry.role == Event.Role.USER and entry.is_chosen
    anchor = f' id="prompt-{entry.prompt_index}"' if is_place else ""
    is_reply = entry.role == Event.Role.AGENT and not entry.is_thought
    link = _link(entry.character, entry.prompt_index, calls) if is_reply else ""
    words = f"<b>{escape(entry.prefix)}</b>{escape(entry.text)}"
    # A <p> that cannot be copied would add a line break to the text that is copied around it.
    tag, other = ("p", "") if entry.is_chosen else ("div", " not-chosen")
    mark = _mark(entry)
    if entry.is_thought:
        other, mark = f"{other} thought", mark + _THOUGHT
    perceived = _perceived(entry.perceived_by) if entry.perceived_by else ""
    inner = f"{mark}{words}{perceived}{link}{link_after}"
    return f'<{tag} class="entry{color}{other}"{anchor}>{inner}</{tag}>'


def _mark(entry: Entry) -> str:
    """Return HTML that says which of several replies this is, and how it was made.

    The style sheet draws the words, so that a user who copies text from the page does not copy
    them.
    """
    choice = "not chosen" if not entry.is_chosen else "chosen" if entry.place else ""
    says = escape(" · ".join(filter(None, (entry.place, choice, entry.made))))
    if not says:
        return ""
    return f'<span class="attempt-mark" role="img" aria-label="{says}." data-says="{says}"></span>'


def _use_button(entry: Entry) -> str:
    label = f'aria-label="Use reply {entry.place}"'
    sends = f'type="submit" form="choice" name="attempt_id" value="{entry.attempt_id}"'
    return f'<button class="link-button use" {sends} {label}></button>'


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


def _told_link(prompt_index: int, told: str) -> str:
    label = f"Where the draft tells prompt {prompt_index}"
    return f'<a class="told-in" href="{told}{prompt_index}#told" aria-label="{label}"></a>'
