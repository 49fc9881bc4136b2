"""What ends a backup or a restore, in words for whoever asked for it."""


class BackupError(Exception):
    """Nothing was changed."""

    is_for_the_log = True


class ToolMissing(BackupError):
    """PostgreSQL's own programs are not on this machine."""


IF_IT_IS_DAMAGED = "If it is damaged, docs/deployment.md says how to restore a backup all the same."


def sentence_of(error: Exception) -> str:
    """What it says, in one line that ends: some end with a full stop, those of databases do not."""
    return f"{' '.join(str(error).split()).removesuffix('.')}."
