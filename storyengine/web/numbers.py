"""Reads whole numbers from forms and addresses."""

from sessions.exceptions import InvalidInput


def read_whole_number(text: str, label: str) -> int:
    """Read a whole number, whose range the caller checks; raise InvalidInput."""
    plain = text.strip().replace(",", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 6):
        raise InvalidInput(f"{label} must be a whole number. Nothing was saved.")
    return int(plain)


def number_up_to(count: int, text: str) -> int:
    """Return the number from 1 to `count` that an address names; 0 if it names none."""
    try:
        number = read_whole_number(text, "The number")
    except InvalidInput:
        return 0
    return number if 1 <= number <= count else 0
