"""The changes that the program makes before a turn is narrated: the time that the words take, and
the deeds of the player that no tool makes, because a small model has no tools or because the prompt
itself says where the player goes."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.calling.model_access import model_of
from agents.modes.fields import given_of
from agents.prompting.agent import in_chapter
from agents.prompting.tools import ProposedChange, ToolArguments, ToolContext
from explorer.deeds import Deed, asked_along, forms_of_places, read_deeds
from explorer.narrator import NARRATOR_AGENT
from explorer.played_world import WORLD
from explorer.state import WORDS_TICKS, world_in
from explorer.tools import (
    MOST_COMPANIONS,
    AdvanceTime,
    DiscoverCharacter,
    Line,
    MoveToLocation,
    advance,
    discover,
    move,
    readable,
)
from sessions.exceptions import InvalidInput
from sessions.language.mentions import is_named_in
from sessions.models import Attempt, Session
from sessions.play.played_world import NewChange, changes_that_count, turns_before
from world.changes import MET, MOVED, TIME
from world.state import World

# At most this many places are offered below a turn.
_MOST_OFFERED = 3


class Given(ToolArguments):
    """The place that the prompt itself moves the player to."""

    to: Line = ""


def has_no_tools(chapter: Session) -> bool:
    """Return whether the chapter's narrator is a small model, so that the program decides the
    world."""
    return not model_of(in_chapter(NARRATOR_AGENT, chapter), chapter).agent.tools


def check_given(chapter: Session, given: Mapping[str, Any]) -> None:
    """Raise InvalidInput if the prompt moves the player to a place that is not known."""
    to = given["to"]
    if to and WORLD.now(chapter).find_place(to) is None:
        raise InvalidInput(f"given.to: you know no place called “{to[:60]}”. Nothing was sent.")


def begins(attempt: Attempt) -> list[NewChange]:
    """Return the changes for the time that a turn takes, with or without the user's words, and then
    the changes of the player's deeds. The functions of the tools make these changes."""
    time = ProposedChange(TIME, {"ticks": WORDS_TICKS, "narrative_time": ""})
    made = [NewChange(time.kind, time.payload, cause="words")]
    world = WORLD.of(attempt)
    if not (deeds := _deeds_of(attempt, world)):
        return made
    context = ToolContext(attempt.session_id, None, readable(attempt), (time,))
    for deed in deeds:
        for cause, changes in _changes_of(deed, context):
            context = replace(context, changes=(*context.changes, *changes))
            made += [NewChange(one.kind, one.payload, cause=cause) for one in changes]
    return made


def _deeds_of(attempt: Attempt, world: World) -> list[Deed]:
    """Return the player's deeds. If a field of the prompt names the place where the player goes,
    its words need not tell the move."""
    given, words = given_of(attempt), attempt.words
    to = world.find_place(given.to) if given else None
    deeds = read_deeds(words, world) if has_no_tools(attempt.session) else []
    if to:
        deeds = [Deed("go", to.name), *(one for one in deeds if one.kind != "go")]
    elif not words and has_no_tools(attempt.session):
        deeds = [Deed("look")]
    return [_whole(one, attempt, world) if one.kind == "go" else one for one in deeds]


def _whole(move: Deed, attempt: Attempt, world: World) -> Deed:
    """Return the move with its place, and with the people whom the player asked along, in these
    words or in the last ones."""
    latest = turns_before(attempt).order_by("number").last()
    last = latest.chosen.words if latest else ""
    asked = (name for words in (attempt.words, last) for name in asked_along(words, world))
    along = tuple(dict.fromkeys([*move.along, *asked]))[:MOST_COMPANIONS]
    return replace(move, to=move.to or _place_before(attempt, world), along=along)


def _place_before(attempt: Attempt, world: World) -> str:
    """Return the previous place of the player, or ""."""
    chapter, player = attempt.session, world.player
    moves = changes_that_count(chapter, attempt=attempt).filter(kind=MOVED)
    gone = [
        one["to"]
        for one in moves.values_list("payload", flat=True)
        if player and player.name in one["who"]
    ]
    been = [WORLD.initial_state(chapter).player_location, *gone]
    return next((one for one in reversed(been) if one != world.player_location), "")


def _changes_of(deed: Deed, context: ToolContext) -> Iterator[tuple[str, Sequence[ProposedChange]]]:
    """Yield the changes of the deed, each with the name of the tool that would make it for another
    model."""
    if deed.to:
        arguments = MoveToLocation(
            destination=deed.to, narrativeTime="", accompaniedBy=list(deed.along)
        )
        yield "moveToLocation", move(arguments, context).changes
    if deed.kind == "wait":
        time = AdvanceTime(narrativeTime=deed.until, ticks=deed.ticks)
        yield "advanceTime", advance(time, context).changes
    elif deed.ticks:
        # The time is too short for a line that tells it.
        payload = {"ticks": deed.ticks, "narrative_time": ""}
        yield "words", (ProposedChange(TIME, payload),)
    if deed.kind != "go" and not any(one.kind == MET for one in context.changes):
        yield "discoverCharacter", _meeting(context)


def _meeting(context: ToolContext) -> Sequence[ProposedChange]:
    """If a hidden person here is offered, return the changes that let the player meet the first
    one."""
    here = (DiscoverCharacter(characterName=one.name) for one in world_in(context).hidden())
    return next(filter(None, (discover(one, context).changes for one in here)), ())


def offered_places(chapter: Session, world: World) -> list[str]:
    """Return the other places that the words of the latest turn name, if the player could have
    meant to go there and the turn has not moved the player."""
    latest = chapter.turns.order_by("number").select_related("chosen").last()
    if latest is None or not has_no_tools(chapter):
        return []
    attempt, player = latest.chosen, world.player
    moves = attempt.changes.filter(run_id=attempt.run_id, kind=MOVED).values_list(
        "payload", flat=True
    )
    if player is None or any(player.name in one["who"] for one in moves):
        return []
    forms = forms_of_places(world)
    named = (name for form, name in forms.items() if is_named_in(attempt.words, form, forms))
    found = [name for name in dict.fromkeys(named) if name != player.location]
    return found[:_MOST_OFFERED]
