"""The seven characters, with the layers of their requests in the specification's order."""

from collections.abc import Mapping, Sequence

from agents.prompting.agent import Agent
from agents.prompting.declarations import RECENT_CONTEXT, instructions, memory_layer
from agents.prompting.layer_sources import (
    character_memory,
    file_piece,
    identity,
    own_pieces,
    prompt_file,
    speaker,
)
from agents.prompting.layers import Piece, Tier
from agents.prompting.recalled import RECALLED_PASSAGES
from agents.prompting.sandwich import LayerDeclaration, Subject
from gamemaster.small_form import SMALL_FORM
from sessions.exceptions import InvalidInput
from sessions.models import Attempt, Session
from sessions.play.attempts import Writer
from sessions.reply_lengths import ReplyLength
from sessions.roster import SLOTS, default_name

# The words that say how much to write, by the length that the Game Master has chosen.
_LENGTHS: Mapping[str, str] = {
    ReplyLength.SHORT: "one or two short paragraphs",
    ReplyLength.NORMAL: "one to six short paragraphs",
    ReplyLength.LONG: "six to twelve paragraphs",
}
_MINIMAL_LENGTHS: Mapping[str, str] = {
    ReplyLength.SHORT: "about 40 words",
    ReplyLength.NORMAL: "about 80 words",
    ReplyLength.LONG: "about 160 words",
}


def character_rules(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the rules for the character who reads the request.

    In the full and the medium tier, the rules are the same for all characters, so that the requests
    of all characters share a provider's cache. The minimal tier is for the embedded model. Its
    server has a separate cache for each character, and finds this cache by the beginning of the
    request. So the rules of the minimal tier begin with the character's name, and differ for each
    character.
    """
    if tier != "minimal":
        return [file_piece("gamemaster.character")]
    return [file_piece("gamemaster.character_minimal", character_name=speaker(subject))]


def your_reply(subject: Subject, tier: Tier) -> list[Piece]:
    """Return the last line of the request, which says who answers, and for whom alone.

    It is the last thing that the model reads, because the context before it has the words of all
    other characters. It also says how much to write, because the text before it then does not
    change when the Game Master chooses another length, and servers have it in their caches.
    """
    own = {"character_name": speaker(subject)}
    chosen = subject.chapter.reply_length
    if tier == "minimal":
        # This line is short, because a small model reads it anew with every prompt.
        length = f"Write {_MINIMAL_LENGTHS[chosen]}."
        return [file_piece("gamemaster.your_reply_minimal", **own, length=length)]
    length = f"Write {_LENGTHS[chosen]}, unless the beat or your identity asks otherwise."
    return [file_piece("gamemaster.your_reply", **own, length=length)]


# The specification fixes the order of the layers after the system message.
CHARACTER_LAYERS = (
    *instructions(
        character_rules,
        prompt_file("gamemaster.process_map_character", minimal=""),
        prompt_file("gamemaster.protocol_character", minimal=""),
    ),
    LayerDeclaration("AGENT_IDENTITY", identity),
    memory_layer("STRUCTURED_MEMORY", character_memory, is_kept=True),
    RECENT_CONTEXT,
    RECALLED_PASSAGES,
    LayerDeclaration("USER_PROMPT", own_pieces("USER_PROMPT")),
    LayerDeclaration("YOUR_REPLY", your_reply),
)

CHARACTERS = tuple(
    Agent(
        slot,
        "character",
        default_name(slot),
        "o4-mini",
        output_tokens=1_000,
        reasoning_tokens=4_000,
        temperature=0.8,
        layers=CHARACTER_LAYERS,
        reasoning_effort="low",
        is_character=True,
        has_reply_rules=True,
        small=SMALL_FORM,
    )
    for slot in SLOTS
)


def answers(chapter: Session, actor: int | None) -> Writer:
    """Return the character whom the Game Master addresses."""
    if actor is None:
        raise InvalidInput("The prompt names no agent that answers it. Nothing was sent.")
    return Writer(actor, "character")


def words_of(attempt: Attempt) -> Mapping[str, Sequence[Piece]]:
    return {"USER_PROMPT": [Piece(attempt.words)]}


def headings(attempt: Attempt) -> list[str]:
    """Return the text that stops the embedded model as soon as it writes it: a heading of the
    request. The names of other characters are no such texts, because the reply is cut there and the
    GM learns whose words the model began to write."""
    return ["\n## "]
