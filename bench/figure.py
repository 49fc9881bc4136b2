"""One line of the table that a measurement ends in."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """`measured` is the bare number behind `value`; `passed` is None where there is no target."""

    name: str
    measured: float
    value: str
    target: str = ""
    passed: bool | None = None
