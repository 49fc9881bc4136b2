"""Renders the transcript's entries as HTML, with an article for each turn.

The window may have a thousand short entries, and all of them are rendered after every reply. Python
code renders them faster than a template.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby

from django import template
from django.template.context import Context
from django.urls import reverse
from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe

from sessions.models import Event
from sessions.record.transcript import Entry
from storyengine.web.templatetags.story_texts import isolated, of_story

register = template.Library()

_THOUGHT = '<span class="thought-mark" role="img" aria-label="Thought."></span>'
# The classes of entries that no member of the cast says: the user's words, a narrator's words, and
# a line that tells a change of the world.
_OF_NOBODY: Mapping[str, str] = {
    Event.Role.USER: " prompt",
    Event.Role.AGENT: " narrated",
    Event.Role.SYSTEM: " world-line",
}
# The template with the acts of the latest turn on Tab 2.
_LATEST_ACTS = "play/_latest_acts.html"


@dataclass(frozen=True)
class _Addresses:
    """The beginnings of the addresses that the acts of a turn are sent to. The number of the turn
    follows."""

    calls: str
    forks: str
    turns: str
    told: str
    # The last prompt that a draft tells. Prompts up to it have a link to their paragraphs there.
    told_until: int

    @classmethod
    def of(cls, session_id: uuid.UUID, told_until: int | str) -> "_Addresses":
        names = ("prompt-calls", "confirm-fork", "turn", "told")
        calls, forks, turns, told = (
            reverse(f"pages:{one}", args=[session_id, 0]).removesuffix("0") for one in names
        )
        last = told_until if isinstance(told_until, int) else 0
        return cls(calls, forks, turns, told, told_until=last)


@register.simple_tag(takes_context=True)
def turns(
    context: Context,
    entries: Iterable[Entry],
    session_id: uuid.UUID,
    open_turn: int | str = "",
    told_until: int | str = "",
) -> SafeString:
    """Return an article for each turn. Between entries there are two line breaks in text that a
    user copies.

    At the turn `open_turn`, each reply that is not chosen has a button to choose it. On Tab 2,
    whose context has `page`, the acts of the latest turn come from a template of their own.
    """
    addresses = _Addresses.of(session_id, told_until)
    latest = context["chapter"].prompt_index if "page" in context else 0
    told = of_story(context)
    html = []
    for number, of_turn in groupby(entries, key=lambda one: one.prompt_index):
        turn = list(of_turn)
        is_latest = number == latest
        acts = _latest_acts(context) if is_latest else _acts(number, addresses)
        html.append(_article(number, turn, acts, told, is_latest, number == open_turn))
    return mark_safe("".join(html))  # noqa: S308 - every part is escaped


def _latest_acts(context: Context) -> str:
    assert context.template is not None, "A tag is rendered within a template."
    acts = context.template.engine.get_template(_LATEST_ACTS)
    return acts.render(context)


def _article(
    number: int, turn: list[Entry], acts: str, told: str, is_latest: bool, is_open: bool
) -> str:
    # The window may begin in the middle of a turn.
    is_whole = turn[0].role == Event.Role.USER
    who = next((one.character.name for one in turn if one.character and one.is_chosen), "")
    who = isolated(who)
    heading = f"Prompt {number}" + (f", {who}" if who else "") + ("" if is_whole else ", continued")
    seen_by = {one.perceived_by for one in turn if one.role == Event.Role.AGENT and one.is_told}
    together = seen_by.pop() if len(seen_by) == 1 else ""
    seen = [one for one in turn if not one.is_silent]
    ends = {one.attempt_id: at for at, one in enumerate(seen) if not one.is_chosen}
    # Links to a prompt lead to its words, or else to the first entry of its turn.
    place_at = next((at for at, one in enumerate(seen) if one.is_told), -1) if is_whole else -1
    shown = [
        _paragraph(
            one,
            told,
            is_place=at == place_at,
            told_apart=one.perceived_by != together,
            link_after=_use_button(one) if is_open and ends.get(one.attempt_id) == at else "",
        )
        for at, one in enumerate(seen)
    ]
    css = "turn is-latest" if is_latest else "turn"
    place = f' id="turn-{number}"' if is_whole else " data-part"
    return (
        f'<article class="{css}" tabindex="-1" data-turn="{number}"{place}>'
        f'<h2 class="unseen">{escape(heading)}</h2>{_seen_by(together)}'
        f"{''.join(shown)}{acts}</article>"
    )


def _paragraph(
    entry: Entry, told: str, *, is_place: bool, told_apart: bool, link_after: str
) -> str:
    color = f" agent-{escape(entry.character.color)}" if entry.character else ""
    color += _OF_NOBODY.get(entry.role, "") if entry.character is None else ""
    anchor = f' id="prompt-{entry.prompt_index}"' if is_place else ""
    words = f"<b>{prefix(entry)}</b>{escape(entry.text)}"
    # A <p> that cannot be copied would add a line break to the text that is copied around it.
    tag, other = ("p", "") if entry.is_chosen else ("div", " not-chosen")
    mark = _mark(entry)
    if entry.is_thought:
        other, mark = f"{other} thought", mark + _THOUGHT
    perceived = _perceived(entry.perceived_by) if entry.perceived_by and told_apart else ""
    inner = f"{mark}{words}{perceived}{link_after}"
    return f'<{tag} class="entry{color}{other}"{anchor} {told}>{inner}</{tag}>'


@register.filter
def prefix(entry: Entry) -> SafeString:
    """Return the prefix of an entry, as HTML. The prefix does not change the reading direction of
    the entry: the words alone decide it."""
    if entry.character is None or not entry.prefix:
        return SafeString(escape(entry.prefix))
    before, name, after = entry.prefix.partition(entry.character.name)
    return format_html("{}<bdi>{}</bdi>{}", before, name, after) if name else SafeString(before)


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


def _seen_by(names: str) -> str:
    """Return HTML with the names of those who see a whole turn, or "" if everybody sees it.

    The style sheet draws the words, so that a user who copies text from the page does not copy
    them.
    """
    return f'<div class="seen-by">{_perceived(names)}</div>' if names else ""


def _perceived(names: str) -> str:
    by = escape(isolated(names))
    label = f'role="img" aria-label="Seen by {by}."'
    return f'<span class="perceived" {label} data-by="{by}"></span>'


def _acts(number: int, addresses: _Addresses) -> str:
    """Return HTML with the acts of an earlier turn. The first act is the turn's only tab stop; the
    arrow keys lead to the others."""
    is_told = number <= addresses.told_until
    told = (
        f'<a class="act" href="{addresses.told}{number}#told" tabindex="-1"'
        f' aria-label="Where the draft tells prompt {number}">How the draft tells it</a>'
    )
    return (
        f'<div class="turn-acts" role="toolbar" aria-label="Prompt {number}">'
        f'<a class="act" href="{addresses.calls}{number}"'
        f' aria-label="Why this reply? Prompt {number}">Why this reply?</a>'
        '<button class="act copies" type="button" tabindex="-1" data-copies>Copy</button>'
        f'<a class="act" href="{addresses.turns}{number}" tabindex="-1">Link</a>'
        f'<a class="act" href="{addresses.forks}{number}" tabindex="-1"'
        f' aria-label="Begin another story from here, after prompt {number}">'
        f"Begin another story from here</a>{told if is_told else ''}</div>"
    )
