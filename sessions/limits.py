"""The caps of the specification, in code points; a line break counts as one."""

CHUNK_SIZE_PROMPTS = 7
TAB1_CHAR_LIMIT = 5_000
TAB2_CHAR_LIMIT = 60_000
PROMPT_CHAR_LIMIT = 5_000
NARRATIVE_AGENT_CHAR_LIMIT = 5_000
CANON_CHAR_LIMIT = 1_000
AGENT_NAME_CHAR_LIMIT = 60
TITLE_CHAR_LIMIT = 120
# The engine cuts no reply; this is far beyond what any model writes at once.
REPLY_CHAR_LIMIT = 1_000_000
SUBMISSION_KEY_CHAR_LIMIT = 100
MAX_ATTEMPTS_OF_A_TURN = 50
MAX_AGENTS = 7
DEFAULT_TARGET_WORDS = 2_500
MIN_TARGET_WORDS = 100
MAX_TARGET_WORDS = 5_000


def default_config() -> dict[str, int]:
    return {
        "chunk_size_prompts": CHUNK_SIZE_PROMPTS,
        "tab1_char_limit": TAB1_CHAR_LIMIT,
        "tab2_char_limit": TAB2_CHAR_LIMIT,
        "prompt_char_limit": PROMPT_CHAR_LIMIT,
    }
