"""A switch that makes a real model call an error; the test suite turns it off."""

from agents.providers.exceptions import RealCallForbidden

_real_calls_allowed = True


def forbid_real_calls() -> None:
    global _real_calls_allowed
    _real_calls_allowed = False


def allow_real_calls() -> None:
    global _real_calls_allowed
    _real_calls_allowed = True


def check_real_calls_allowed() -> None:
    """Every provider that opens a connection calls this first."""
    if not _real_calls_allowed:
        raise RealCallForbidden(
            "A test tried to call a real model. "
            "Use the scripted provider, or the marker real_model."
        )
