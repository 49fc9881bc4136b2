"""The narrator of an exploration, with the layers of its request.

The request has two parts. The system message is the same in all turns. The part that changes with
each turn stands after the history and before the player's newest words, because models look most
there. It is made anew for each step, so that the narrator sees the changes of its own tools.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from agents.prompting.agent import Agent
from agents.prompting.declarations import memory_layer
from agents.prompting.layer_sources import (
    file_piece,
    memory_beside_world,
    own_pieces,
    prompt_file,
)
from agents.prompting.layers import Piece, Tier
from agents.prompting.recalled import RECALLED_PASSAGES
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from explorer.descriptions import (
    things_here,
    things_of_words,
    told_conditions,
    told_person,
    told_place,
    told_thing,
)
from explorer.guidance_layers import HISTORY, LORE, TALK
from explorer.played_world import world_for
from explorer.setup import setup_for, title_of
from explorer.setup_parts import TEXT_LIMIT
from explorer.short_narration import SMALL_NARRATION
from explorer.state import (
    LAST_HAPPENINGS,
    heard_of,
    in_short,
    last_seen_at,
    offered_of,
)
from explorer.tools import TOOLS
from explorer.unseen import names_person
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer
from world.state import Person, World

# The limit in characters of the description of a hidden person, and also of this person's wishes.
_MOST_ABOUT_HIDDEN = 400
# The narrator's request describes at most this many people elsewhere, each with at most this many
# characters.
_MOST_ELSEWHERE, _MOST_ABOUT_ELSEWHERE = 12, 60
# The limit in characters of the conditions of somebody elsewhere. A lock or a wound must not be cut
# off.
_MOST_CONDITIONS_ELSEWHERE = 200
# The output limit of a step that streams (section 8 of the specification), and the most tokens that
# a request may have (section 3).
STREAMED_TOKENS, MOST_READ = 2_048, 100_000
NARRATOR = "explorer.narrator"
# The limit in characters of the descriptions of all people present together. A small window gives
# less room.
_MOST_ABOUT_PRESENT = 60_000
_NOBODY_ELSE = "(No one else is here)"


def opening(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the title and the description of the scenario."""
    setup = setup_for(subject)
    title = title_of(subject.chapter) or "The story"
    described = setup.description.strip() or "A place to explore."
    if about := setup.about.strip():
        described = f"{described}\n\nThis chapter is about:\n{about}"
    return [file_piece("explorer.opening", title=title, description=described)]


def persona(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the layer that says who the player is, and how the narrator should tell the story."""
    setup = setup_for(subject)
    player, own = setup.player, setup.persona
    who = player or own
    pronouns = f" ({who.pronouns})" if who.pronouns else ""
    lines = [f"THE PLAYER is {who.name}{pronouns}."]
    lines += [text] if (text := who.description.strip()) else []
    if player is None and own.seen_as:
        lines.append(f"What others see of {own.name}: {own.seen_as}")
    if setup.style.strip():
        lines.append(f"HOW YOU TELL IT: {setup.style.strip()}")
    return [Piece("\n".join(lines))]


def place(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    here = world.places.get(world.player_location)
    lines = [f"CURRENT LOCATION: {here.name if here else 'Unknown'}"]
    lines += told_place(here, limit=TEXT_LIMIT) if here else []
    return [Piece("\n".join(lines))]


def other_places(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    names = [name for name in world.places if name != world.player_location]
    return [Piece(f"OTHER KNOWN LOCATIONS: {', '.join(names) or 'None yet'}")]


def time(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    return [Piece(f"TIME: {world.narrative_time or 'Unknown'} (tick {world.tick})")]


def present(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    here = world.present()
    # This number of characters is about a quarter of the tokens.
    room = min(_MOST_ABOUT_PRESENT, subject.budget_tokens or _MOST_ABOUT_PRESENT)
    words = _words_of(subject)
    about = (one for one in world.elsewhere() if names_person(words, one, world))
    names = [one.name for one in (world.player, *here, *about) if one is not None]
    lines = ["CHARACTERS PRESENT (SYSTEM STATE):"]
    for one in here:
        others = [name for name in names if name != one.name]
        lines += told_person(one, room=room // len(here), tied_to=others, words=words)
    return [Piece("\n".join(lines if here else [*lines, _NOBODY_ELSE]))]


def _words_of(subject: Subject) -> str:
    return subject.attempt.words if subject.attempt else ""


def elsewhere(subject: Subject, tier: Tier) -> list[Piece]:
    """Return, for everybody who is not here, the place where the player last saw them, with a
    description and their conditions."""
    world = world_for(subject)
    about = {
        one.name: told
        for one in world.elsewhere()
        if (told := _who_is_elsewhere(one)) and tier != "minimal"
    }
    lines = [f"- {one}" for one in last_seen(world, dict(islice(about.items(), _MOST_ELSEWHERE)))]
    return [Piece("\n".join(["ELSEWHERE, as the player last saw it:", *lines]))] if lines else []


def _who_is_elsewhere(one: Person) -> str:
    who = in_short(one.description, _MOST_ABOUT_ELSEWHERE).rstrip(".")
    how = in_short(told_conditions(one.conditions), _MOST_CONDITIONS_ELSEWHERE)
    return "; ".join(filter(None, (one.pronouns, who, how)))


def last_seen(world: World, about: Mapping[str, str] | None = None) -> list[str]:
    """Return a line for each place where the player last saw people who are not here. `about` has
    descriptions of people."""
    known = about or {}
    lines = []
    for place, people in last_seen_at(world).items():
        told = [
            f"{one.name} ({known[one.name]})" if one.name in known else one.name for one in people
        ]
        lines.append(f"{place or 'No longer here, nobody knows where'}: {', '.join(told)}")
    return lines


def things(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the things that are here, the things elsewhere that the player's words are about, and
    the player's conditions."""
    world = world_for(subject)
    lines = []
    for heading, some in (
        ("THINGS HERE:", things_here(world)),
        ("THINGS ELSEWHERE:", things_of_words(world, _words_of(subject))),
    ):
        lines += [heading, *(f"- {told_thing(one)}" for one in some)] if some else []
    if world.player and world.player.conditions:
        lines.append(f"{world.player.name} now: {told_conditions(world.player.conditions)}")
    return [Piece("\n".join(lines))] if lines else []


def hidden(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the hidden people whom the narrator is offered at this turn."""
    world, attempt = world_for(subject), subject.attempt
    offered = offered_of(attempt, world) if attempt else {}
    here = [one for one in world.hidden() if offered.get(one.name, False)]
    lines = [_hidden(one) for one in here]
    return [Piece("\n".join([file_piece("explorer.hidden").text, *lines]))] if lines else []


def _hidden(one: Person) -> str:
    about = in_short(one.description, _MOST_ABOUT_HIDDEN)
    wants = in_short(one.goals, _MOST_ABOUT_HIDDEN)
    pronouns = f" ({one.pronouns})" if one.pronouns else ""
    told = f"- {one.name}{pronouns}: {about}".rstrip(" :")
    return f"{told} Wants: {wants}" if wants else told


def recent_events(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the events out of the player's sight that the player has heard about. All other events
    stand in the history or in memory."""
    told = [f"- {one}" for one in heard_of(world_for(subject))[-LAST_HAPPENINGS:]]
    return [Piece("\n".join(["RECENT EVENTS:", *told]))] if told else []


def _system(name: str, source: Source) -> LayerDeclaration:
    return LayerDeclaration(name, source, role="system", has_heading=False)


def _now(name: str, source: Source) -> LayerDeclaration:
    return LayerDeclaration(name, source, has_heading=False)


NARRATOR_LAYERS = (
    _system("SCENARIO", opening),
    _system("YOUR_ROLE", prompt_file("explorer.role", minimal="explorer.role_minimal")),
    _system("RULES_OF_TOOLS", prompt_file("explorer.tool_rules")),
    _system("RULES_OF_DISCOVERY", prompt_file("explorer.discovery", minimal="")),
    _system("CONSTRAINTS", prompt_file("explorer.constraints")),
    _system("EXAMPLES", prompt_file("explorer.examples")),
    _system("PLAYER", persona),
    TALK,
    memory_layer("STRUCTURED_MEMORY", memory_beside_world, is_kept=True),
    *HISTORY,
    RECALLED_PASSAGES,
    # The heading marks the part of the message that changes with each turn.
    LayerDeclaration("WORLD_NOW", place),
    _now("OTHER_LOCATIONS", other_places),
    _now("TIME", time),
    _now("CHARACTERS_PRESENT", present),
    _now("HIDDEN_CHARACTERS", hidden),
    _now("THINGS", things),
    _now("ELSEWHERE", elsewhere),
    _now("RECENT_EVENTS", recent_events),
    LORE,
    LayerDeclaration("PLAYERS_WORDS", own_pieces("PLAYERS_WORDS")),
    # A small model repeats the words that stand last.
    _now("HOW_TO_ANSWER", prompt_file("", minimal="explorer.reminder_minimal")),
)

NARRATOR_AGENT = Agent(
    None,
    NARRATOR,
    "Narrator of the world",
    "o4-mini",
    output_tokens=STREAMED_TOKENS,
    reasoning_tokens=4_000,
    temperature=0.8,
    layers=NARRATOR_LAYERS,
    reasoning_effort="low",
    tools=TOOLS,
    # Without tools: the program decides the world (see explorer.without_tools).
    small=SMALL_NARRATION,
    # Five steps with tools, and then a last step in which the model should call no tool.
    most_steps=6,
    most_read=MOST_READ,
    retry_waits=(1, 2, 4),
)


def answers(chapter: Session, actor: int | None) -> Writer:
    """Return the narrator, who answers every prompt, even a prompt without words."""
    if actor is not None:
        raise InvalidInput(
            "The narrator answers every prompt here; name no agent. Nothing was sent."
        )
    return Writer(None, NARRATOR, needs_words=False)


def words_of(attempt: Attempt) -> Mapping[str, Sequence[Piece]]:
    words = attempt.words.strip()
    is_first = attempt.session.prompt_index == 0 or (attempt.turn and attempt.turn.number == 1)
    silent = "explorer.first_words" if is_first else "explorer.going_on"
    return {"PLAYERS_WORDS": [Piece(words) if words else file_piece(silent)]}


def headings(attempt: Attempt) -> list[str]:
    """Return the text that stops a small model as soon as it writes it: a heading of the
    request."""
    return ["\n## "]
