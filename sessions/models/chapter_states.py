"""The states of a chapter."""

from django.db.models import TextChoices


class State(TextChoices):
    IMPORTING = "IMPORTING", "Being imported"
    DRAFT_TAB1 = "DRAFT_TAB1", "Setting up"
    LOCKING = "LOCKING", "Locking"
    ACTIVE = "ACTIVE", "In play"
    SUMMARIZING = "SUMMARIZING", "Writing memory"
    ENDED = "ENDED", "Ended"
    NARRATING = "NARRATING", "Writing the chapter"
    RESETTING = "RESETTING", "Resetting"


# A chapter can be played in these states. Play continues while a summary is being written.
PLAYABLE = (State.ACTIVE, State.SUMMARIZING)
