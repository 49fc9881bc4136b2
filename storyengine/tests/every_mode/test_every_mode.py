"""Tests of what must hold for any mode, over all installed modes and those of the tests.

A mode is played as the `SCENARIO` of its `chaos.py` says. STORYENGINE_TEST_CHAPTERS is the number
of chapters of each mode, and `--hypothesis-seed` repeats those of a run.
"""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from agents.modes.checks import check_modes
from sessions.tests.weekly import few
from storyengine.tests.every_mode.installed import APPS, Install
from storyengine.tests.every_mode.installed import installed as installed
from storyengine.tests.every_mode.machine import Play

CHAPTERS = int(os.environ.get("STORYENGINE_TEST_CHAPTERS", few(1, 12)))


@pytest.mark.each_run
@pytest.mark.django_db
@pytest.mark.parametrize("app", APPS)
def test_however_it_is_played_a_chapter_is_what_its_chosen_attempts_made(
    installed: Install, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    model = installed(app)
    assert check_modes() == []
    monkeypatch.setattr(Play, "scenario", model.scenario)
    monkeypatch.setattr(Play, "model", model)
    run_state_machine_as_test(
        Play,
        settings=settings(
            max_examples=CHAPTERS,
            phases=[Phase.explicit, Phase.generate],
            stateful_step_count=12,
            suppress_health_check=list(HealthCheck),
        ),
    )
