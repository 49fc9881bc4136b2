"""The states of a chapter as its row has them, and the jobs that do the work of a state."""

BEING_STORED = "IMPORTING"
BEFORE_PLAY = ("DRAFT_TAB1", "LOCKING")
IN_PLAY = ("ACTIVE", "SUMMARIZING")
AFTER_PLAY = ("ENDED", "NARRATING")
# The kind of job that has to be there in a state.
WORK_OF_STATE = {"LOCKING": "lock", "SUMMARIZING": "summarize", "NARRATING": "narrate"}
