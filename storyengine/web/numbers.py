"""Reads whole numbers from forms and addresses."""

from sessions.exceptions import InvalidInput


def read_whole_number(text: str, label: str) -> int:
    """Return the text as a whole number. The caller has to check the range of the number. Raises
    InvalidInput."""
    plain = text.strip().replace(",", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 6):
        raise InvalidInput(f"{label} must be a whole number. Nothing was saved.")
    return int(plain)


def number_up_to(count: int, text: str) -> int:
    """Return the number from 1 to `count` that a text from an address has. Return 0 for any other
    text."""
    try:
        number = read_whole_number(text, "The number")
    except InvalidInput:
        return 0
    return number if 1 <= number <= count else 0
