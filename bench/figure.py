"""A figure: one line of the table that a benchmark prints at its end."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure.

    `value` is the text that the table shows, and `measured` is the number in this text. `passed` is
    None if the figure has no target.
    """

    name: str
    measured: float
    value: str
    target: str = ""
    passed: bool | None = None
