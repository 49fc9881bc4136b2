"""A figure, which is one line of the table at the end of a measurement."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A figure. `measured` is the number that `value` shows. `passed` is None without a target."""

    name: str
    measured: float
    value: str
    target: str = ""
    passed: bool | None = None
