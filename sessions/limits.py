"""The caps of the specification, in code points; a line break counts as one."""

# How many prompts one summary covers, unless the chapter says otherwise.
CHUNK_SIZE_PROMPTS = 7
MIN_CHUNK_SIZE_PROMPTS = 3
MAX_CHUNK_SIZE_PROMPTS = 20
TAB1_CHAR_LIMIT = 5_000
TAB2_CHAR_LIMIT = 60_000
PROMPT_CHAR_LIMIT = 5_000
NARRATIVE_AGENT_CHAR_LIMIT = 5_000
CANON_CHAR_LIMIT = 1_000
AGENT_NAME_CHAR_LIMIT = 60
# Of who writes an attempt, and of a way to play, as that declares them: explorer.narrator.
AGENT_CHAR_LIMIT, MODE_CHAR_LIMIT = 60, 30
PRONOUNS_CHAR_LIMIT = 40
PUBLIC_TEXT_CHAR_LIMIT = 200
TITLE_CHAR_LIMIT = 120
# The engine cuts no reply; this is far beyond what any model writes at once.
REPLY_CHAR_LIMIT = 1_000_000
SUBMISSION_KEY_CHAR_LIMIT = 100
MAX_ATTEMPTS_OF_A_TURN = 50
MAX_AGENTS = 7
# People of the world who have no panel.
MAX_PEOPLE = 20
DEFAULT_TARGET_WORDS = 2_500
MIN_TARGET_WORDS = 100
MAX_TARGET_WORDS = 5_000
