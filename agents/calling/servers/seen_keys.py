"""The keys that this process has read, so that the log can leave them out of every line.

The module imports nothing, because the log is set up before anything else.
"""

_seen: set[str] = set()


def note_keys(keys: set[str]) -> None:
    _seen.update(keys)


def seen_keys() -> tuple[str, ...]:
    return tuple(sorted(_seen))
