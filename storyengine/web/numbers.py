"""Whole numbers out of forms and addresses."""

from sessions.exceptions import InvalidInput


def read_whole_number(text: str, label: str) -> int:
    """Raises InvalidInput; the caller checks the range."""
    plain = text.strip().replace(",", "")
    if not (plain.isascii() and plain.isdigit() and len(plain) <= 6):
        raise InvalidInput(f"{label} must be a whole number. Nothing was saved.")
    return int(plain)


def number_up_to(count: int, text: str) -> int:
    """The number from 1 to `count` that an address names; 0 when it names none."""
    try:
        number = read_whole_number(text, "The number")
    except InvalidInput:
        return 0
    return number if 1 <= number <= count else 0
