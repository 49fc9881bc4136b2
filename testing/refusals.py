"""The words by which several tests recognise a refusal or a failure, each once.

A test compares the kind of a refusal, which is its class or the type of its problem. Where one kind
has several reasons, the test compares the reason by these words. So a change of English costs one
line here, and not a line in each test.
"""

# Why another attempt can no longer be made, chosen or edited.
PLAY_HAS_GONE_ON = "play has gone on"
USER_HAS_ACTED = "you have acted"
ANOTHER_WAS_CHOSEN = "Another reply was chosen"
NOT_BEGUN = "has not begun"
# Why nothing was saved.
IS_LOCKED = "This chapter is locked now"
ANOTHER_WINDOW = "Another window has changed this"
NOTHING_CHANGED = "Nothing was changed"
# Why a file is not imported.
NO_EXPORTED_CHAPTER = "is no exported chapter"
IS_ARCHIVE = "is an archive"
NOTHING_KEPT = "Nothing was kept"
# Why a model's answer was not taken.
NOT_IN_FORM = "in the form that the program needs"
TOLD_NO_PROSE = "did not answer with prose"
DRAFTS_UNCHANGED = "Earlier drafts are unchanged"
TOOL_FAILED = "The tool failed and changed nothing. Go on without it."
