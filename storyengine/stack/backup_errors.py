"""The errors that end a backup or a restore. Their messages are for the person who runs it."""


class BackupError(Exception):
    """The failure of a backup or a restore. The database is unchanged."""

    is_for_the_log = True


class ToolMissing(BackupError):
    """A program of PostgreSQL is missing on this machine."""


class FromBefore(BackupError):
    """A database or a backup comes from a program whose migrations this program lacks."""


IF_IT_IS_DAMAGED = "If it is damaged, docs/deployment.md says how to restore a backup all the same."
MAKE_ROOM = "What was stored before is kept. Make room on it, and start again."
DISK_IS_FULL = f"The disk is full. {MAKE_ROOM}"


def say_unreadable(error: BaseException) -> str:
    return (
        f"The database cannot be read, and was left as it is: {sentence_of(error)} "
        f"{IF_IT_IS_DAMAGED}"
    )


def sentence_of(error: BaseException) -> str:
    """Return the error's message as one line that ends with one full stop."""
    return f"{' '.join(str(error).split()).removesuffix('.')}."
