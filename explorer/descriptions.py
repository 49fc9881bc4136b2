"""The words in which people, places and things are told to models: to the narrator, and to the
models that work out what happens out of sight."""

from collections.abc import Iterable, Iterator, Sequence

from explorer.state import in_short
from sessions.language.words import terms_of
from world.state import Condition, Known, Person, Place, Thing, World

# Of the facts that a person has learned, a request has at most this many: the newest facts (the
# specification's figure), and facts that the player's words are about.
LAST_KNOWN, KNOWN_OF_WORDS = 3, 3
# The fractions of the room for one person that the description and the kept facts may have at most.
# The other half of the room is for everything else.
_DESCRIPTION_SHARE, _KEPT_SHARE, _OTHER_SHARE = 0.3, 0.3, 0.1


def told_thing(one: Thing) -> str:
    """Return the place and the state of a thing, such as "the mill key: Osk Brandt has it;
    bent"."""
    where = f"{one.holder} has it" if one.holder else f"at {one.place}" if one.place else ""
    told = "; ".join(part for part in (where, one.state, one.description) if part)
    return f"{one.name}: {told}" if told else one.name


def told_conditions(conditions: Iterable[Condition]) -> str:
    return "; ".join(one.text for one in conditions)


def told_place(place: Place, *, limit: int) -> list[str]:
    """Return the description of a place as it was first found, with its present conditions."""
    lines = [told] if (told := in_short(place.description, limit)) else []
    if place.conditions:
        lines.append(f"Since then: {told_conditions(place.conditions)}")
    return lines


def told_person(
    one: Person,
    *,
    room: int,
    tied_to: Sequence[str],
    words: str = "",
    newest: int = LAST_KNOWN,
) -> Iterator[str]:
    """Yield the lines about a person, in about `room` characters: a description, the goals, the
    kept facts, the knowledge, the ties to the people of `tied_to`, and the conditions that hold.

    Of the facts that the person has learned, the `newest` are told, and the facts that the player's
    `words` are about.
    """
    pronouns = f" ({one.pronouns})" if one.pronouns else ""
    description = in_short(one.description, int(room * _DESCRIPTION_SHARE))
    yield f"- {one.name}{pronouns}: {description}".rstrip(" :")
    other = int(room * _OTHER_SHARE)
    if wants := in_short(one.goals, other):
        yield f"    Wants: {wants}"
    if kept := _facts(one.kept, int(room * _KEPT_SHARE)):
        yield f"    Keeps: {kept}"
    if known := _facts(_known(one, words, newest), other):
        yield f"    Knows: {known}"
    for name in tied_to:
        if tie := in_short(one.tie_to(name), other // max(len(tied_to), 1)):
            yield f"    To {name}: {tie}"
    if one.conditions:
        yield f"    Now: {in_short(told_conditions(one.conditions), other)}"


def _known(one: Person, words: str, newest: int) -> list[Known]:
    """Return the newest facts that the person has learned, and before them the learned facts that
    the words are about."""
    learned = one.came_to_know
    asked = set(terms_of(words))
    earlier, last = learned[:-newest], learned[-newest:]
    if not asked:
        return last
    shared = [(len(asked & set(terms_of(fact.content))), at) for at, fact in enumerate(earlier)]
    best = sorted((pair for pair in shared if pair[0]), reverse=True)[:KNOWN_OF_WORDS]
    return [*(earlier[at] for at in sorted(at for _, at in best)), *last]


def _facts(facts: Sequence[Known], room: int) -> str:
    each = room // max(len(facts), 1)
    told = [short for one in facts if (short := in_short(one.content, each))]
    # A fact is a sentence. The mark between two of them takes the place of its full stop.
    return "; ".join([*(one.removesuffix(".") for one in told[:-1]), *told[-1:]])


def things_of_words(world: World, words: str) -> list[Thing]:
    """Return the things that the words name and that are not at the player's place, if the player
    knows who holds them. The things with the most words in common come first."""
    asked = set(terms_of(words))
    here = {one.name for one in things_here(world)}
    known = {one.name for one in world.elsewhere()}
    shared = {
        one.name: len(asked & set(terms_of(one.name)))
        for one in world.things.values()
        if one.name not in here and (not one.holder or one.holder in known)
    }
    best = sorted((name for name in shared if shared[name]), key=lambda name: -shared[name])
    return [world.things[name] for name in best[:KNOWN_OF_WORDS]]


def things_here(world: World) -> list[Thing]:
    """Return the things at the player's place, and the things of the player and of the people there
    whom the player knows."""
    hidden = {one.name for one in world.hidden()}
    here = world.player_location
    return [
        one
        for one in world.things.values()
        if here and world.place_of(one) == here and one.holder not in hidden
    ]
