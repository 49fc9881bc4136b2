"""The states of a chapter as its row has them, and the kinds of job that work in these states."""

BEING_STORED = "IMPORTING"
BEFORE_PLAY = ("DRAFT_TAB1", "LOCKING")
IN_PLAY = ("ACTIVE", "SUMMARIZING")
AFTER_PLAY = ("ENDED", "NARRATING")
# Maps a state to the kind of job that must exist while a chapter is in this state.
WORK_OF_STATE = {"LOCKING": "lock", "SUMMARIZING": "summarize", "NARRATING": "narrate"}
