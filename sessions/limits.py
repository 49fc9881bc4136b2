"""The limits of stored texts and lists. The specification sets many of them. Texts are counted in
code points, and a line break counts as one."""

# The number of prompts that one summary covers by default.
CHUNK_SIZE_PROMPTS = 7
MIN_CHUNK_SIZE_PROMPTS = 3
MAX_CHUNK_SIZE_PROMPTS = 20
TAB1_CHAR_LIMIT = 5_000
TAB2_CHAR_LIMIT = 60_000
PROMPT_CHAR_LIMIT = 5_000
NARRATIVE_AGENT_CHAR_LIMIT = 5_000
CANON_CHAR_LIMIT = 1_000
AGENT_NAME_CHAR_LIMIT = 60
# The limits in characters of the name of an agent (such as explorer.narrator) and of a mode.
AGENT_CHAR_LIMIT, MODE_CHAR_LIMIT = 60, 30
PRONOUNS_CHAR_LIMIT = 40
PUBLIC_TEXT_CHAR_LIMIT = 200
TITLE_CHAR_LIMIT = 120
# The limit in characters of a search among all stories.
SEARCH_CHAR_LIMIT = 200
# The limit in characters of a reply. The engine never shortens a reply, and no model writes nearly
# so much at once.
REPLY_CHAR_LIMIT = 1_000_000
# A draft can be edited, or compared with another draft, up to this many characters and paragraphs.
# The longest draft that the narrator is asked for has some 30,000 characters.
DRAFT_CHAR_LIMIT, DRAFT_PARAGRAPH_LIMIT = 200_000, 5_000
SUBMISSION_KEY_CHAR_LIMIT = 100
# The limits in characters of the names of a change's kind and cause, and of the name of the kind of
# an event, a block or a job.
CHANGE_NAME_CHAR_LIMIT, KIND_CHAR_LIMIT = 60, 40
# The limit in characters of the name of a starter.
STARTER_CHAR_LIMIT = 60
# The limit in characters, as JSON, of the fields that a mode adds to Tab 1.
MODE_SETUP_CHAR_LIMIT = 1_000_000
# The limit in characters, as JSON, of the fields that a mode adds to a prompt.
GIVEN_CHAR_LIMIT = 20_000
# The limit in characters, as JSON, of a change's payload.
CHANGE_CHAR_LIMIT = 20_000
# The limit in characters, as JSON, of any other stored object, such as a memory block, or the data
# that an event shows beside its text. No memory block that passes its checks is longer.
PAYLOAD_CHAR_LIMIT = 1_000_000
# The limit in characters of the tag of a language, such as "pt-BR".
LANGUAGE_TAG_CHAR_LIMIT = 35
# The limit in characters of the name of the language that an event can be found in.
LANGUAGE_CHAR_LIMIT = 20
# The terms of an event are made from at most this many characters, and a term has at most this
# many.
FOUND_CHAR_LIMIT, TERM_CHAR_LIMIT = 100_000, 40
MAX_ATTEMPTS_OF_A_TURN = 50
# One run and the acts after it make at most this many changes together.
MAX_CHANGES_OF_AN_ATTEMPT = 1_000
# A run takes at most this many late results. The limit leaves room for the run's own changes.
MAX_RESULTS_OF_A_RUN = 200
# Acts may make at most this many changes between one turn and the next.
MAX_ACTS_OF_A_TURN = 500
MAX_AGENTS = 7
# Tab 1 has at most this many people without a panel.
MAX_PEOPLE = 100
# An attempt has at most this many events. The event with the user's words is not counted.
MAX_EVENTS_OF_AN_ATTEMPT = 500
# At most this many people may appear in play, in all attempts of a chapter together. People of
# attempts that can no longer be committed are not counted.
MAX_PEOPLE_IN_PLAY = 500
DEFAULT_TARGET_WORDS = 2_500
MIN_TARGET_WORDS = 100
MAX_TARGET_WORDS = 5_000
