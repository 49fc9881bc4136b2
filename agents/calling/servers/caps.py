"""The limits of what a chapter may cost: the caps of the environment, or lower ones that the user
has stored on the page Models.

The stored caps are read together with the choices of models (`refresh_choices`), so that they count
in every process without a restart.
"""

from dataclasses import dataclass
from decimal import Decimal

from django.conf import settings

# The highest caps that can be stored where the environment has none.
HIGHEST_DOLLARS, HIGHEST_TOKENS = Decimal(1_000_000), 10**12


@dataclass(frozen=True)
class Caps:
    """The caps of a chapter in dollars, and in tokens of models without a known price. None stands
    for no cap."""

    dollars: Decimal | None = None
    tokens: int | None = None


NO_CAPS = Caps()
# The stored caps as this process last read them. The whole object is replaced.
_stored = NO_CAPS


def hold_caps(stored: Caps) -> None:
    """Keep the stored caps in this process."""
    global _stored
    _stored = stored


def stored_caps() -> Caps:
    """Return the caps that the user has stored, as this process last read them."""
    return _stored


def caps_of_environment() -> Caps:
    return Caps(settings.CHAPTER_BUDGET or None, settings.CHAPTER_TOKENS or None)


def present_caps() -> Caps:
    """Return the caps that count: of two caps the lower one."""
    first, second = caps_of_environment(), _stored
    return Caps(
        min((one for one in (first.dollars, second.dollars) if one is not None), default=None),
        min((one for one in (first.tokens, second.tokens) if one is not None), default=None),
    )


def how_to_raise_dollars() -> str:
    """Return what the user has to do so that a chapter may cost more, as a part of a sentence."""
    is_stored = present_caps().dollars == stored_caps().dollars
    highest, own = caps_of_environment().dollars, stored_caps().dollars
    return _how_to_raise("BUDGET", can_be_stored=is_stored and highest != own)


def how_to_raise_tokens() -> str:
    """Return what the user has to do so that a chapter may use more tokens."""
    is_stored = present_caps().tokens == stored_caps().tokens
    highest, own = caps_of_environment().tokens, stored_caps().tokens
    return _how_to_raise("TOKENS", can_be_stored=is_stored and highest != own)


def _how_to_raise(name: str, *, can_be_stored: bool) -> str:
    if can_be_stored:
        return "raise the spending cap on the page Models"
    return f"raise STORYENGINE_CHAPTER_{name} and restart"
