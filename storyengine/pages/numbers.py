"""Whole numbers out of forms."""

from sessions.exceptions import InvalidInput


def read_whole_number(text: str, label: str) -> int:
    """Raises InvalidInput; the caller checks the range."""
    plain = text.strip().replace(",", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 6):
        raise InvalidInput(f"{label} must be a whole number. Nothing was saved.")
    return int(plain)
