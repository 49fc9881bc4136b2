"""The names of layers in the words of the pages. The text of a request and the API have the names
themselves."""

from sessions.roster import PRIVATE_TEXTS, PUBLIC_TEXTS

# The layers that have no text of the user. The page of consent announces all others.
_OF_THE_PROGRAM = (
    *("SYSTEM", "PROCESS_MAP", "PROTOCOLS", "FORMAT", "ADDED_KEYS"),
    *("SESSION_STATE", "YOUR_REPLY", "TASK"),
    *("YOUR_ROLE", "RULES_OF_TOOLS", "RULES_OF_DISCOVERY", "CONSTRAINTS", "EXAMPLES"),
    "HOW_TO_ANSWER",
)
# The layers with texts of the cast.
_OF_THE_CAST = {"CAST": PUBLIC_TEXTS, "AGENT_IDENTITY": PRIVATE_TEXTS}
# A layer that is not named here has a name that reads well in small letters.
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
    "RECENT_CONTEXT_CHUNK": "the prompts to summarise, with their replies",
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
    "PLAYER": "who you are, and how it is told",
    "SCENARIO": "the title and the world",
    "AUTHORS_NOTE": "your author's note",
    "WORLD_NOW": "the place where you are",
    "CHARACTERS_PRESENT": "the people there and what they want, keep and know",
    "HIDDEN_CHARACTERS": "hidden people whom you could meet",
    "ELSEWHERE": "where you last saw others",
    "HEARD_OF": "what you heard of",
    "LOCATION_DESCRIPTION": "the place to which you go",
    "OUT_OF_SIGHT": "the world and a place out of your sight, its people and what they know",
    "WHAT_IS_NOTED": "what people have learned, things and conditions",
    "REPAIR": "what was wrong with the answer before",
    "CONTINUE": "the request to go on",
}


def layer_in_words(name: str) -> str:
    """Return the name of a layer in words, as within a sentence."""
    return _IN_WORDS.get(name) or name.replace("_", " ").lower()


def announced(name: str) -> str:
    """Return the words for the layer on the page of consent, or "" if the layer has no text of the
    user."""
    labels = ", ".join(f"“{one.label}”" for one in _OF_THE_CAST.get(name, ()))
    words = layer_in_words(name) + (f" ({labels})" if labels else "")
    return "" if name in _OF_THE_PROGRAM else words
