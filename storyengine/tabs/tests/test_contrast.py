"""Tests that the contrast of every text with its background is at least what WCAG AA asks for."""

import re
from pathlib import Path

import pytest
from django.conf import settings

LEAST = 4.5
# What WCAG 2.2 asks of a focus ring.
LEAST_OF_A_RING = 3
CSS = Path(settings.BASE_DIR, "static", "css", "base.css").read_text(encoding="utf-8")
COLOURS: dict[str, str] = dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{3}(?:[0-9a-f]{3})?);", CSS))
TINTS = ("red", "orange", "yellow", "green", "blue-agent", "indigo", "violet")
# The names of the background colours: of cells, of rows in the library, of the header, and of
# messages and dialogs.
GROUNDS = ("black", "ink", "header", "raised")


def luminance(colour: str) -> float:
    digits = colour.removeprefix("#")
    if len(digits) == 3:
        digits = "".join(digit * 2 for digit in digits)
    parts = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def page_colours(page: str) -> dict[str, str]:
    """Return the colours that the CSS class of a page sets. A reference to a general colour is
    replaced by this colour."""
    [rules] = re.findall(rf"\.page-{page} {{(.*?)}}", CSS, re.DOTALL)
    found: list[tuple[str, str]] = re.findall(r"([a-z-]+):\s*([^;]+);", rules)
    return {
        name.lstrip("-"): COLOURS.get(value.removeprefix("var(--").removesuffix(")"), value)
        for name, value in found
    }


def test_the_measure_is_that_of_the_standard() -> None:
    assert contrast("#000", "#fff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("tint", TINTS)
def test_every_agents_colour_can_be_read_on_black(tint: str) -> None:
    assert contrast(COLOURS[tint], COLOURS["black"]) >= LEAST


@pytest.mark.parametrize("text", ["text", "soft", "bad"])
@pytest.mark.parametrize("ground", GROUNDS)
def test_words_can_be_read_wherever_they_stand(text: str, ground: str) -> None:
    assert contrast(COLOURS[text], COLOURS[ground]) >= LEAST


@pytest.mark.parametrize("quiet", [".column > .help", ".column > .pages"])
def test_quiet_words_outside_the_cells_have_the_pages_own_colour(quiet: str) -> None:
    [rule] = re.findall(r"([^{}]+) {\s+color: var\(--on-page-soft\);\s+}", CSS)
    assert quiet in [one.strip() for one in rule.split(",")]


@pytest.mark.parametrize("page", ["black", "grey", "white"])
def test_words_outside_the_cells_can_be_read_on_each_page(page: str) -> None:
    colours = page_colours(page)
    for text in ("on-page", "on-page-soft", "on-page-link"):
        assert contrast(colours[text], colours["background"]) >= LEAST


@pytest.mark.parametrize("page", ["black", "grey", "white"])
def test_the_focus_ring_stands_out_on_each_page_and_in_its_cells(page: str) -> None:
    colours = page_colours(page)
    for ground in (colours["background"], *(COLOURS[one] for one in GROUNDS)):
        assert contrast(colours.get("focus", COLOURS["focus"]), ground) >= LEAST_OF_A_RING
