"""Reads the texts in the fields of pydantic models, by the one rule on text. A text that breaks the
rule raises ValueError, whose message says where. A value that is no text is left to pydantic."""

from sessions.language.text import as_line, seen, tidied, why_not_text


def read_signs(value: object) -> object:
    """Return a text in the form that is stored. Unlike `read_text`, this function keeps a text in
    which nothing can be seen, because each of its characters matters."""
    if not isinstance(value, str):
        return value
    if problem := why_not_text(value):
        raise ValueError(problem)
    return tidied(value)


def read_text(value: object) -> object:
    """Return a text in the form that is stored. A text in which nothing can be seen becomes
    empty."""
    value = read_signs(value)
    return seen(value) if isinstance(value, str) else value


def read_name(value: object) -> object:
    """Return a name as a line. A name in which nothing can be seen does not become empty, so that a
    check can refuse it."""
    value = read_signs(value)
    return as_line(value) if isinstance(value, str) else value
