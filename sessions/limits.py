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
# The most characters in the name of an agent (such as explorer.narrator) and in the name of a mode.
AGENT_CHAR_LIMIT, MODE_CHAR_LIMIT = 60, 30
PRONOUNS_CHAR_LIMIT = 40
PUBLIC_TEXT_CHAR_LIMIT = 200
TITLE_CHAR_LIMIT = 120
# The most characters of a search among all stories.
SEARCH_CHAR_LIMIT = 200
# The most characters of a reply. The engine never shortens a reply, and no model writes nearly so
# much at once.
REPLY_CHAR_LIMIT = 1_000_000
# The most characters and paragraphs of a draft that can be edited, or compared with another draft.
# The longest draft that the narrator is asked for has some 30,000 characters.
DRAFT_CHAR_LIMIT, DRAFT_PARAGRAPH_LIMIT = 200_000, 5_000
SUBMISSION_KEY_CHAR_LIMIT = 100
# The most characters in the name of a change's kind or cause, and in the name of the kind of an
# event, a block or a job.
CHANGE_NAME_CHAR_LIMIT, KIND_CHAR_LIMIT = 60, 40
# The most characters in the name of a starter.
STARTER_CHAR_LIMIT = 60
# The most characters of the fields that a mode adds to Tab 1, as JSON.
MODE_SETUP_CHAR_LIMIT = 1_000_000
# The most characters of the fields that a mode adds to a prompt, as JSON.
GIVEN_CHAR_LIMIT = 20_000
# The most characters of a change's payload, as JSON.
CHANGE_CHAR_LIMIT = 20_000
# The most characters of any other stored object as JSON, such as a memory block, or the data that
# an event shows beside its text. No memory block that passes its checks is longer.
PAYLOAD_CHAR_LIMIT = 1_000_000
# The most characters in the tag of a language, such as "pt-BR".
LANGUAGE_TAG_CHAR_LIMIT = 35
# The most characters in the name of the language in which an event is found.
LANGUAGE_CHAR_LIMIT = 20
# The most characters of an event from which its terms are made, and the most characters of a term.
FOUND_CHAR_LIMIT, TERM_CHAR_LIMIT = 100_000, 40
MAX_ATTEMPTS_OF_A_TURN = 50
# The most changes of one run and of the acts after it, together.
MAX_CHANGES_OF_AN_ATTEMPT = 1_000
# The most late results that a run takes. The limit leaves room for the run's own changes.
MAX_RESULTS_OF_A_RUN = 200
# The most changes that acts may make between one turn and the next.
MAX_ACTS_OF_A_TURN = 500
MAX_AGENTS = 7
# The most people without a panel on Tab 1.
MAX_PEOPLE = 100
# The most events of an attempt. The event with the user's words is not counted.
MAX_EVENTS_OF_AN_ATTEMPT = 500
# The most people who may appear in play, in all attempts of a chapter together. People of attempts
# that can no longer be committed are not counted.
MAX_PEOPLE_IN_PLAY = 500
DEFAULT_TARGET_WORDS = 2_500
MIN_TARGET_WORDS = 100
MAX_TARGET_WORDS = 5_000
