from collections.abc import Sequence
from pathlib import Path

import pytest

from testing.session_data import (
    CHAPTER_CHARACTERS,
    IDENTITY_CHARACTERS,
    SMALL_CHARACTERS,
    SYNTHETIC_REPLY_WORDS,
    WORLD_CHARACTERS,
    Pair,
    load_session,
    setup_of,
    small_setup_of,
    synthetic_session,
    write_session,
)


def test_a_synthetic_session_is_the_same_every_time() -> None:
    assert synthetic_session(84) == synthetic_session(84)


def test_synthetic_beats_and_replies_are_all_different() -> None:
    session = synthetic_session(84)

    assert len({pair.beat for pair in session.pairs}) == 84
    assert len({pair.reply for pair in session.pairs}) == 84


def test_synthetic_replies_are_equally_long() -> None:
    lengths = {len(pair.reply.split()) for pair in synthetic_session(84).pairs}

    assert lengths == {SYNTHETIC_REPLY_WORDS}


def test_what_comes_later_in_a_session_does_not_repeat_what_came_before() -> None:
    pairs = synthetic_session(84).pairs
    earlier, later = (_runs(half) for half in (pairs[:42], pairs[42:]))

    assert len(earlier & later) < len(later) / 3


def _runs(pairs: Sequence[Pair]) -> set[tuple[str, ...]]:
    """Return all sequences of five successive words in the beats and replies."""
    words = " ".join(f"{pair.beat} {pair.reply}" for pair in pairs).split()
    return set(zip(*(words[at:] for at in range(5)), strict=False))


def test_a_session_survives_being_written_and_loaded(tmp_path: Path) -> None:
    session = synthetic_session(9)
    write_session(session, tmp_path / "session.jsonl")

    assert load_session(tmp_path / "session.jsonl") == session


def test_a_file_without_a_roster_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl"
    path.write_text('{"gm": "Hello"}\n')

    with pytest.raises(KeyError):
        load_session(path)


def test_the_setup_has_the_sizes_that_figures_are_compared_at() -> None:
    setup = setup_of(synthetic_session(3))

    assert len(setup.world_text) == WORLD_CHARACTERS
    assert len(setup.chapter_text) == CHAPTER_CHARACTERS
    assert [len(text) for text in setup.identities.values()] == [IDENTITY_CHARACTERS] * 7
    assert len(set(setup.identities.values())) == 7


def test_small_worlds_are_all_different_and_of_whole_words() -> None:
    session = synthetic_session(3)
    setups = [small_setup_of(session, number) for number in range(40)]

    assert len({setup.world_text for setup in setups}) == 40
    for text in (text for setup in setups for text in (setup.world_text, setup.chapter_text)):
        assert SMALL_CHARACTERS <= len(text) + 1 < SMALL_CHARACTERS + 40
        assert set(text.split()) <= set(session.summary.split())
