"""The names of layers in the words of the pages. The text of a request and the API have the names
themselves."""

# A layer that is not named here has a name that reads well in small letters, such as WORLD_NOW.
_IN_WORDS = {
    "SYSTEM": "the rules",
    "EXAMPLE": "an example",
    "EXAMPLE_ANSWER": "the answer of the example",
    "PROCESS_MAP": "the course of a chapter",
    "PROTOCOLS": "the form of prompts and replies",
    "CAST": "the cast",
    "AGENT_IDENTITY": "the identity",
    "STRUCTURED_MEMORY": "the memory",
    "STRUCTURED_MEMORY_SO_FAR": "the memory so far",
    "RECENT_CONTEXT": "the latest prompts with their replies",
    "LAST_BEATS": "the prompts before",
    "LATEST_TURNS": "the very last turns",
    "RECENT_CONTEXT_CHUNK": "the prompts to summarise",
    "RECALLED_PASSAGES": "earlier passages about the same",
    "SESSION_STATE": "where the chapter stands",
    "USER_PROMPT": "your prompt",
    "WORLD_TEXT": "the world",
    "CHAPTER_TEXT": "the chapter",
    "AGENT_ROSTER": "the characters",
    "SYSTEM_NOTES": "the title",
    "NARRATIVE_AGENT_DEFINITION": "the instructions for the narrator",
    "FULL_CHAPTER_CONTEXT": "the transcript",
    "FORMAT": "the form of the answer",
    "PLAYERS_WORDS": "your words",
    "PLAYER": "who you are",
    "REPAIR": "what was wrong with the answer before",
    "CONTINUE": "the request to go on",
}


def layer_in_words(name: str) -> str:
    """Return the name of a layer in words, as within a sentence."""
    return _IN_WORDS.get(name) or name.replace("_", " ").lower()
