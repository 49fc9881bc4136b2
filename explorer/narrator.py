"""The narrator of an exploration, with the layers of its request.

The request has two parts. What no turn changes is the system message. What turns change stands
after the history, before the player's newest words, where models look most; it is made anew for
each step, so that the narrator sees what its own tools have changed.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from agents.prompting.declarations import Agent, memory_layer
from agents.prompting.layer_sources import (
    file_piece,
    own_pieces,
    present_memory,
    prompt_file,
)
from agents.prompting.layers import Piece, Tier
from agents.prompting.recalled import RECALLED_PASSAGES
from agents.prompting.sandwich import LayerDeclaration, Source, Subject
from explorer.guidance_layers import HISTORY, LORE, TALK
from explorer.setup import setup_for, title_of
from explorer.state import in_short, offered_of, world_for
from explorer.tools import TOOLS
from sessions.attempts import Writer
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from world.state import Person, World

# How much of what a person knows, and of what happened, the narrator is told: the newest.
LAST_KNOWN, LAST_HAPPENINGS = 3, 5
# The most tokens of a step that streams, and of a request. The sources are the sections 8 and 3 of
# the specification.
STREAMED_TOKENS, MOST_READ = 2_048, 100_000
NARRATOR = "explorer.narrator"
# The most characters about all people present together. A small window gives less room.
_MOST_ABOUT_PRESENT = 60_000
_NOBODY_ELSE = "(No one else is here)"


def opening(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the title and the description of the scenario."""
    setup = setup_for(subject)
    title = title_of(subject.chapter) or "The story"
    described = setup.description.strip() or "A place to explore."
    return [file_piece("explorer.opening", title=title, description=described)]


def persona(subject: Subject, tier: Tier) -> list[Piece]:
    """Return who the player is, and how the narrator should tell."""
    setup = setup_for(subject)
    player, own = setup.player, setup.persona
    name, text = (player.name, player.description) if player else (own.name, own.description)
    lines = [f"THE PLAYER is {name}."]
    lines += [text.strip()] if text.strip() else []
    if player is None and own.seen_as:
        lines.append(f"What others see of {name}: {own.seen_as}")
    if setup.style.strip():
        lines.append(f"HOW YOU TELL IT: {setup.style.strip()}")
    return [Piece("\n".join(lines))]


def place(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    here = world.places.get(world.player_location)
    lines = [f"CURRENT LOCATION: {here.name if here else 'Unknown'}"]
    if here and here.description:
        lines.append(here.description)
    return [Piece("\n".join(lines))]


def other_places(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    names = [name for name in world.places if name != world.player_location]
    return [Piece(f"OTHER KNOWN LOCATIONS: {', '.join(names) or 'None yet'}")]


def time(subject: Subject, tier: Tier) -> list[Piece]:
    world = world_for(subject)
    return [Piece(f"TIME: {world.narrative_time or 'Unknown'} (tick {world.tick})")]


def present(subject: Subject, tier: Tier) -> list[Piece]:
    here = world_for(subject).present()
    # So many characters are about a quarter of the tokens.
    room = min(_MOST_ABOUT_PRESENT, subject.budget_tokens or _MOST_ABOUT_PRESENT)
    people = [_described(one, room // len(here)) for one in here]
    lines = ["CHARACTERS PRESENT (SYSTEM STATE):", *(people or [_NOBODY_ELSE])]
    note = file_piece("explorer.present_note").text
    return [Piece("\n".join([*lines, note]))]


def hidden(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the hidden people whom the narrator is offered at this turn."""
    world, attempt = world_for(subject), subject.attempt
    offered = offered_of(attempt, world) if attempt else {}
    names = [one.name for one in world.hidden() if offered.get(one.name, False)]
    if not names:
        return []
    lead = "HIDDEN (they can be discovered if the player looks around, calls or waits):"
    return [Piece(f"{lead} {', '.join(names)}")]


def recent_events(subject: Subject, tier: Tier) -> list[Piece]:
    lines = [f"- {one}" for one in lately(world_for(subject))]
    return [Piece("\n".join(["RECENT EVENTS:", *lines]))] if lines else []


def lately(world: World) -> list[str]:
    """Return the newest of what happened and the player witnessed or was told, oldest first."""
    player = world.player
    if player is None:
        return []
    told = {_plain(one.content) for one in player.knowledge}
    seen = (
        one.description
        for one in reversed(world.happenings)
        if player.name in one.witnesses or _plain(one.description) in told
    )
    return list(islice(seen, LAST_HAPPENINGS))[::-1]


def _plain(sentence: str) -> str:
    return sentence.strip().rstrip(".").casefold()


def _described(one: Person, room: int) -> str:
    """Return what the narrator is told of a person, in about so many characters: the description in
    one half of them, and the newest that the person knows in the other."""
    line = f"- {one.name}: {in_short(one.description, room // 2)}".rstrip(" :")
    newest = (known.content for known in one.knowledge[-LAST_KNOWN:])
    known = [told for one in newest if (told := in_short(one, room // (2 * LAST_KNOWN)))]
    return f"{line}\n    Knows: {'; '.join(known)}" if known else line


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
    memory_layer("STRUCTURED_MEMORY", present_memory, is_kept=True),
    *HISTORY,
    RECALLED_PASSAGES,
    # The heading marks the part of the message that turns change.
    LayerDeclaration("WORLD_NOW", place),
    _now("OTHER_LOCATIONS", other_places),
    _now("TIME", time),
    _now("CHARACTERS_PRESENT", present),
    _now("HIDDEN_CHARACTERS", hidden),
    _now("RECENT_EVENTS", recent_events),
    LORE,
    LayerDeclaration("PLAYERS_WORDS", own_pieces("PLAYERS_WORDS")),
    # A small model repeats the words that stand last.
    _now("HOW_TO_ANSWER", prompt_file("", minimal="explorer.reminder_minimal")),
)

NARRATOR_AGENT = Agent(
    None,
    NARRATOR,
    "Narrator",
    "o4-mini",
    output_tokens=STREAMED_TOKENS,
    reasoning_tokens=4_000,
    temperature=0.8,
    layers=NARRATOR_LAYERS,
    reasoning_effort="low",
    tools=TOOLS,
    # Five steps with tools, and then a last call that asks for none.
    most_steps=6,
    most_read=MOST_READ,
    retry_waits=(1, 2, 4),
)


def answers(chapter: Session, actor: int | None) -> Writer:
    """Return the narrator, who answers every prompt, also one without words."""
    if actor is not None:
        raise InvalidInput(
            "The narrator answers every prompt here; name no agent. Nothing was sent."
        )
    return Writer(None, NARRATOR, needs_words=False)


def words_of(attempt: Attempt) -> Mapping[str, Sequence[Piece]]:
    words = attempt.words.strip()
    return {"PLAYERS_WORDS": [Piece(words) if words else file_piece("explorer.going_on")]}


def headings(attempt: Attempt) -> list[str]:
    """Return the text at which a small model is stopped: a heading of the request."""
    return ["\n## "]
