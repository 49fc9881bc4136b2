"""The text that a model gets to work out what happened at a place out of the player's sight: the
place, the people there, the time, and the last passages that were told there."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from agents.prompting.layers import Piece, Tier
from agents.prompting.sandwich import Subject
from explorer.descriptions import told_person, told_place, told_thing
from explorer.lore import tokens_of
from explorer.setup import exploration_of
from explorer.setup_parts import TEXT_LIMIT
from explorer.state import WENT
from explorer.stretch import Moment, ToldStretch, told_stretch
from explorer.unseen import Unseen, unseen_at
from sessions.models import Attempt, Event
from sessions.record.chosen_events import chosen_events
from world.state import World

# Of the facts that a person has learned, the model gets at most this many: the newest (the
# specification's figure).
_LAST_KNOWN = 5
# The last passages that were told at the place have at most this many tokens.
_MOST_PASSAGES = 800
# The model gets the passages of at most this many turns that these people lived through elsewhere,
# such as the turn in which one of them was sent here with news.
_MOST_TURNS_ELSEWHERE = 2
# The number of characters about each person, approximately.
_ROOM_OF_A_PERSON = 4_000


# The parts of a question about the place that the player comes back to: its name, and the time of
# the arrival in the story's words.
PLACE, ARRIVAL = "PLACE", "ARRIVAL"


def out_of_sight(subject: Subject, tier: Tier) -> Sequence[Piece]:
    """Return the layer. A simulation brings the text along. A question within a move names only the
    place, so the text is made here."""
    own = subject.own_pieces
    if subject.attempt is None or PLACE not in own:
        return own.get("OUT_OF_SIGHT", ())
    played = told_stretch(subject.attempt, 1)
    world = replace(played.world, narrative_time=own[ARRIVAL][0].text)
    one = unseen_at(world, own[PLACE][0].text)
    told = one and told_out_of_sight(subject.attempt, replace(played, world=world), one)
    return [Piece(told)] if told else ()


def told_out_of_sight(attempt: Attempt, played: ToldStretch, one: Unseen) -> str:
    """Return the text. `played` is the whole chapter up to the attempt."""
    world = played.world
    place = world.places[one.place]
    others = ", ".join(name for name in world.places if name != one.place) or "None yet"
    things = [thing for thing in world.things.values() if world.place_of(thing) == one.place]
    passages = _passages(attempt, one, played.moments)
    you = f' ("you" is {world.player.name}, who is not here)' if world.player else ""
    return "\n".join(
        [
            f"PLACE: {one.place}",
            *told_place(place, limit=TEXT_LIMIT),
            f"TIME: {_time(world, one)}",
            *([f"EXCHANGES: {one.exchanges}"] if one.is_full else []),
            "CHARACTERS:",
            *_people(world, one),
            *(["THINGS HERE:", *(f"- {told_thing(thing)}" for thing in things)] if things else []),
            *([f"TOLD LAST{you}:", *passages] if passages else []),
            # Only a talk may send somebody away.
            *([f"AVAILABLE LOCATIONS: {others}"] if one.is_full else []),
            f"SCENARIO: {exploration_of(attempt.session).description}",
        ]
    )


def _time(world: World, one: Unseen) -> str:
    begin, end = world.places[one.place].unseen_from, world.narrative_time
    if not end or begin == end:
        return end or "Unknown"
    return f"from {begin} to {end}" if begin else end


def _people(world: World, one: Unseen) -> Iterator[str]:
    names = [person.name for person in one.people]
    # A tie to somebody whom the player has not met, and who is elsewhere, could come into a text
    # that the player reads.
    known = {person.name for person in world.people.values() if person.is_discovered}
    for person in one.people:
        others = [name for name in person.relationships if name in known or name in names]
        # The people who are there come first.
        tied_to = sorted(others, key=lambda name: name not in names)
        yield from told_person(person, room=_ROOM_OF_A_PERSON, tied_to=tied_to, newest=_LAST_KNOWN)


def _passages(attempt: Attempt, one: Unseen, moments: Mapping[int, Moment]) -> list[str]:
    """Return the newest passages, oldest first, that the narrator told, before and in the attempt's
    turn, while the player was at this place, or elsewhere with people who have come here since.
    `moments` are the moments of the whole chapter."""
    chapter = attempt.session
    last = attempt.turn.number if attempt.turn else chapter.prompt_index
    found: list[str] = []
    room = _MOST_PASSAGES
    elsewhere = _turns_elsewhere(one, moments, last)
    numbers = [
        number
        for number in range(last, 0, -1)
        if number in elsewhere or one.place in (moments[number - 1].place, moments[number].place)
    ]
    events = chosen_events(chapter, to_prompt=last, prompts=numbers).exclude(role=Event.Role.USER)
    by_turn = {number: list(turn) for number, turn in groupby(events, lambda one: one.prompt_index)}
    for number in numbers:
        begin, end = moments[number - 1].place, moments[number].place
        place = begin if number in elsewhere else one.place
        lead = f"[at {place}, with {elsewhere[number]}] " if number in elsewhere else ""
        for event in reversed(_told_at(place, begin, end, by_turn.get(number, []))):
            room -= tokens_of(event.text)
            if room < 0:
                return found[::-1]
            found.append(lead + " ".join(event.text.split()))
    return found[::-1]


def _turns_elsewhere(one: Unseen, moments: Mapping[int, Moment], last: int) -> dict[int, str]:
    """Return the newest turns that people of this place lived through with the player at another
    place, where the player stayed, with the names of these people."""
    names = {person.name for person in one.people}
    found = {}
    for number in range(last, 0, -1):
        place, there = moments[number].place, names & moments[number].there
        if there and one.place != place == moments[number - 1].place:
            found[number] = " and ".join(sorted(there))
        if len(found) == _MOST_TURNS_ELSEWHERE:
            break
    return found


def _told_at(place: str, begin: str, end: str, told: Sequence[Event]) -> list[Event]:
    """Return the passages of a turn that were told at the place. The turn began at the place
    `begin` and ended at the place `end`."""
    moves = [at for at, event in enumerate(told) if event.kind == WENT]
    first, last = (moves[0], moves[-1]) if moves else (len(told), -1)
    if begin == end == place and not moves:
        return [one for one in told if one.role == Event.Role.AGENT]
    before = told[:first] if begin == place else []
    after = told[last + 1 :] if end == place and moves else []
    return [one for one in (*before, *after) if one.role == Event.Role.AGENT]
