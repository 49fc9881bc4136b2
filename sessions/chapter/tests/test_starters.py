"""The starters that come with the program are good for Tab 1, and a mistake in a file of the folder
takes only its own card away."""

from pathlib import Path

import pytest

from sessions.chapter.chapters import SetupChange, create_chapter, save_setup
from sessions.chapter.starters import (
    FOLDER,
    Starter,
    all_starters,
    load_starters,
    read_starter,
    setup_of,
    unchanged_starter,
)
from sessions.language.text import clean_text
from sessions.models import Session
from sessions.roster import CAST_TEXTS

FILES = sorted(FOLDER.glob("*.toml"))

each_starter = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)


def test_three_starters_of_three_kinds_come_with_the_program() -> None:
    starters = all_starters()
    assert len(starters) == len(FILES) == 3
    assert len({one.kind.split(" · ")[0] for one in starters}) == 3


@each_starter
def test_texts_are_short_enough_for_a_small_model(path: Path) -> None:
    starter = read_starter(path)
    assert len(starter.world) <= 700
    for one in starter.characters:
        assert len(one.model_dump()["identity"]) <= 600
        # A secret that others are told would be none.
        assert "Secret:" in one.model_dump()["identity"]
    for turn in starter.turns:
        assert 30 <= len(turn.reply.split()) <= 90


@each_starter
def test_its_texts_are_stored_as_they_are_written(path: Path) -> None:
    starter = read_starter(path)
    turns = [text for turn in starter.turns for text in (turn.prompt, turn.reply)]
    for text in (starter.world, starter.chapter, starter.next.prompt, *turns):
        assert clean_text(text, limit=5_000, label="It") == text


@each_starter
@pytest.mark.django_db
def test_only_an_unchanged_setup_counts_as_the_starter(path: Path) -> None:
    starter = read_starter(path)
    assert unchanged_starter(_made_from(starter)) == starter
    for change in ("world_text", "chapter_text"):
        chapter = _changed(_made_from(starter), **{change: f"{starter.world} More."})
        assert unchanged_starter(chapter) is None
    for text in CAST_TEXTS:
        chapter = _changed(_made_from(starter), texts={text.name: {"2": "Other"}})
        assert unchanged_starter(chapter) is None
    fewer = _changed(_made_from(starter), selected_agent_slots=[1, 2])
    assert unchanged_starter(fewer) is None
    # No text depends on how often memory is written.
    assert unchanged_starter(_changed(_made_from(starter), chunk_size_prompts=5)) == starter


def test_a_file_with_a_mistake_is_left_out_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    good = FILES[0].read_text(encoding="utf-8")
    (tmp_path / "a_good.toml").write_text(good, encoding="utf-8")
    (tmp_path / "b_stranger.toml").write_text(
        good.replace('to = "Nessa Corrie"', 'to = "Nobody"'), encoding="utf-8"
    )
    (tmp_path / "c_long.toml").write_text(
        good.replace('pronouns = "she/her"', f'pronouns = "{"she/" * 30}"'), encoding="utf-8"
    )
    (tmp_path / "d_broken.toml").write_text("title = ", encoding="utf-8")
    assert [one.name for one in load_starters(tmp_path)] == ["a_good"]
    for words in (
        "b_stranger.toml",
        "nobody in it is called Nobody",
        "characters[0].pronouns: is longer than 40 characters",
    ):
        assert words in caplog.text
    assert "d_broken.toml" in caplog.text


def _made_from(starter: Starter) -> Session:
    chapter = create_chapter(starter.title)
    Session.objects.filter(pk=chapter.pk).update(starter=starter.name)
    return save_setup(chapter.pk, setup_of(starter))


def _changed(chapter: Session, **fields: object) -> Session:
    return save_setup(chapter.pk, SetupChange(**fields))  # type: ignore[arg-type]
