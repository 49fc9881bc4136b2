"""docs/export.md describes the file as it is."""

from pathlib import Path

from django.conf import settings

from storyengine.exchange import chapter_file, reading

TEXT = (Path(settings.BASE_DIR) / "docs/export.md").read_text(encoding="utf-8")


def test_every_key_is_described() -> None:
    assert {name for name in chapter_file.KNOWN_KEYS if f"`{name}`" not in TEXT} == set()


def test_the_version_and_the_limits_are_those_of_the_program() -> None:
    assert f"**version {chapter_file.VERSION}**" in TEXT
    limits = [
        *(chapter_file.MAX_FILE_BYTES, chapter_file.MAX_EVENTS, chapter_file.MAX_BLOCKS),
        *(chapter_file.MAX_DRAFTS, chapter_file.MAX_TURNS, chapter_file.MODEL_TEXT_CHAR_LIMIT),
        *(chapter_file.ERROR_CHAR_LIMIT, chapter_file.PAYLOAD_CHAR_LIMIT, reading.MAX_SEPARATORS),
    ]
    assert [limit for limit in limits if f"{limit:,}" not in TEXT] == []
