"""Tests that docs/export.md describes the files that the program writes."""

from dataclasses import asdict
from pathlib import Path

from django.conf import settings

from sessions.limits import PAYLOAD_CHAR_LIMIT
from storyengine.exchange import chapter_file, file_parts
from storyengine.settings.import_limits import OF_THE_OPERATOR, OVER_THE_NETWORK, import_command

TEXT = (Path(settings.BASE_DIR) / "docs/export.md").read_text(encoding="utf-8")


def test_every_key_is_described() -> None:
    assert {name for name in chapter_file.KNOWN_KEYS if f"`{name}`" not in TEXT} == set()


def test_the_version_and_the_limits_are_those_of_the_program() -> None:
    assert f"**version {chapter_file.VERSION}**" in TEXT
    counts = [
        value
        for limits in (OVER_THE_NETWORK, OF_THE_OPERATOR)
        for value in asdict(limits).values()
        if isinstance(value, int)
    ]
    assert len(counts) == 20
    limits = [
        *counts,
        *(file_parts.MODEL_TEXT_CHAR_LIMIT, file_parts.ERROR_CHAR_LIMIT),
        PAYLOAD_CHAR_LIMIT,
    ]
    assert [limit for limit in limits if f"{limit:,}" not in TEXT] == []


def test_it_names_the_command_that_refusals_lead_to() -> None:
    assert import_command().endswith("manage.py import_chapter FILE")
    assert "`python manage.py import_chapter FILE`" in TEXT
