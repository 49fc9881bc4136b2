"""The refusal of a request that is too long for the model."""

from collections.abc import Sequence

from agents.exceptions import PromptTooLong

# The layers whose texts the GM can shorten, with the words by which messages name these texts.
EDITABLE = {
    "WORLD_TEXT": "the world text on Tab 1",
    "CHAPTER_TEXT": "the chapter text on Tab 1",
    "AGENT_IDENTITY": "the identity on Tab 1",
    "USER_PROMPT": "your prompt",
    "NARRATIVE_AGENT_DEFINITION": "the narrative agent's instructions on Tab 3",
}
# The layer with a text that is locked. A message names it last, because the GM can shorten this
# text only in a copy of the chapter.
_LOCKED = "AGENT_IDENTITY"
# The layers whose texts the GM cannot shorten, with the words by which messages name these texts.
NOT_EDITABLE = {
    **dict.fromkeys(
        ("RECENT_CONTEXT", "RECENT_CONTEXT_CHUNK", "FULL_CHAPTER_CONTEXT"), "transcript"
    ),
    **dict.fromkeys(("STRUCTURED_MEMORY", "STRUCTURED_MEMORY_SO_FAR"), "memory"),
}


def too_long(sizes: Sequence[tuple[str, float]], excess: float) -> PromptTooLong:
    """Return the error for a request that has `excess` tokens too many. `sizes` are the names and
    the tokens of its layers.

    Its message names the longest layer that the GM can shorten, or all such layers if one layer is
    not enough.
    """
    said = f"This is about {round(excess):,} tokens too long for the model's context window."
    kept = "Nothing was sent and your words are kept."
    parts = sorted(
        ((name, tokens) for name, tokens in sizes if name in EDITABLE),
        key=lambda part: (part[0] == _LOCKED, -part[1]),
    )
    enough = [part for part in parts if part[1] > excess][:1]
    if not enough and sum(tokens for _, tokens in parts) > excess:
        enough = parts
    if enough:
        named = " and ".join(
            f"{EDITABLE[name]} (about {round(tokens):,} tokens)" for name, tokens in enough
        )
        way_out = f"Shorten {named} by so much, or use a model with a larger window."
        return PromptTooLong(f"{said} {way_out} {kept}")
    longest, tokens = max(sizes, key=lambda one: one[1])
    if named_so := NOT_EDITABLE.get(longest):
        said += f" The {named_so} alone has about {round(tokens):,}."
    return PromptTooLong(
        f"{said} Shortening what you wrote would not be enough: a model with a larger window is "
        f"needed. {kept}"
    )
