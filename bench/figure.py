"""A figure, which is one line of the table at the end of a measurement."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure.

    `measured` is the number that the text `value` shows. `passed` is None if there is no target.
    """

    name: str
    measured: float
    value: str
    target: str = ""
    passed: bool | None = None
