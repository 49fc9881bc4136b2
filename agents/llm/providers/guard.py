"""A switch for real model calls. The test suite makes each real call raise an error."""

from agents.llm.providers.failures.call_errors import RealCallForbidden

_real_calls_allowed = True


def forbid_real_calls() -> None:
    global _real_calls_allowed
    _real_calls_allowed = False


def allow_real_calls() -> None:
    global _real_calls_allowed
    _real_calls_allowed = True


def check_real_calls_allowed() -> None:
    """Raise RealCallForbidden if real calls are off. Each provider calls this before connecting."""
    if not _real_calls_allowed:
        raise RealCallForbidden(
            "A test tried to call a real model. "
            "Use the scripted provider, or the marker real_model."
        )
