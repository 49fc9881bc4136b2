"""The fold test of a short chapter, and tests that the fold test finds mistakes."""

import pytest
from django.test import override_settings

from bench.fold.__main__ import fold_figures
from bench.fold.play import LARGE, Tallies, counts_of, play_chapter
from bench.fold.reading import Asking, Tally, check_prompt
from bench.harness import Figure
from bench.tests.saga import play_saga
from sessions.tests.weekly import few
from testing.told_story import Change, Kind, Story, Subject, Turn

KEY = Subject(Kind.HOLDER, "holder of the key", "The key is now with", ("Mara", "Tobin"))


@pytest.mark.django_db
def test_prompts_of_a_short_chapter_tell_the_truth() -> None:
    # The windows of the chapter's models must not stay in the settings.
    with override_settings():
        tallies = play_chapter(few(25, 50), subjects=20, cast=4, seed=15)
    assert [example for tally in tallies.values() for example in tally.examples] == []
    found = figures(tallies)
    assert [figure for figure in found if not figure.passed] == []
    assert len(found) >= 30


@pytest.mark.django_db
def test_prompts_of_a_story_of_three_chapters_tell_the_truth() -> None:
    with override_settings():
        tallies = play_saga(3, few(8, 16), subjects=16, seed=7)
    assert [example for tally in tallies.values() for example in tally.examples] == []
    found = figures(tallies)
    assert [figure for figure in found if not figure.passed] == []
    # The first chapter and the third are forked.
    assert {stage for stage, _ in tallies} == {
        *("chapter 1", "chapter 2", "chapter 3"),
        *("chapter 1, the fork", "chapter 3, the fork"),
    }


def figures(tallies: Tallies) -> list[Figure]:
    return list(fold_figures("50 turns", counts_of(tallies)))


def story() -> Story:
    """Return a story in which Mara has the key, and Tobin gets it while the second character is
    away."""
    made = Story((1, 2), (KEY,))
    made.add(Turn(1, "M0001x00001", 1, (1, 2), (Change(KEY, "Mara"),)))
    made.add(Turn(2, "M0002x00002", 1, (1,), (Change(KEY, "Tobin"),)))
    return made


def asked(*lines: str, reader: int = 1, covered: int = 2) -> Tally:
    tally = Tally()
    text = "\n".join(["<session_state>", *lines, "</session_state>"])
    written = {("M0001x00001", KEY.key), ("M0002x00002", KEY.key)}
    asking = Asking(text, reader, turn=2, covered=covered, is_whole=True)
    check_prompt(asking, story(), written, tally)
    return tally


def missed(tally: Tally) -> list[str]:
    names = [one.name for one in figures({("in play", LARGE): tally}) if not one.passed]
    return [name.rpartition(": ")[2] for name in names]


WAS = '<was at="1">holder of the key: Mara</was>'
NOW = "<now>holder of the key: Tobin</now>"
NOW_OF_THE_OTHER = "<now>holder of the key: Mara</now>"


@pytest.mark.parametrize(
    ("lines", "reader", "names"),
    [
        ([WAS], 1, ["values of now"]),
        ([NOW], 1, ["older values kept while there is room"]),
        (
            [NOW, NOW_OF_THE_OTHER],
            1,
            [
                "values of now",
                "older values marked as past",
                "older values kept while there is room",
            ],
        ),
        ([NOW], 2, ["values of now", "older values marked as past", "who knows less", "leaks"]),
        ([NOW_OF_THE_OTHER, "by R0002x00002"], 2, ["leaks"]),
    ],
)
def test_a_wrong_prompt_misses_a_target(lines: list[str], reader: int, names: list[str]) -> None:
    assert missed(asked(*lines, reader=reader)) == names
