"""The modes that the tests of every mode play, and the fixtures by which a test plays one."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from django.conf import settings as django_settings
from pytest_django import Settings

from agents.calling.model_access import substitute_provider
from agents.tests.second_mode import VOYAGER, install
from chaos.scenarios import Scenario, read_scenarios
from storyengine.tests.every_mode.scripted_model import ScriptedModel

LIGHTHOUSE = "storyengine.tests.lighthouse"
# A mode that has the least, without a folder of its own.
LEAST = Scenario(
    VOYAGER.name,
    has_numbered_agents=False,
    prompts=[{"agent_slot": None}],
    is_narrated=False,
)
APPS = [*django_settings.MODES, LIGHTHOUSE, VOYAGER.name]

Install = Callable[[str], ScriptedModel]


@pytest.fixture
def installed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs the mode of an app, and lets a model answer that is scripted
    by the mode's scenario."""
    settings.LLM = "scripted"
    settings.CALLS_PER_MINUTE = settings.CHAPTER_CALLS_PER_MINUTE = 1_000_000
    with ExitStack() as stack:

        def install_app(app: str) -> ScriptedModel:
            name = app.rpartition(".")[2]
            if app == VOYAGER.name:
                install(monkeypatch, settings, voyager=VOYAGER)
                scenario = LEAST
            else:
                settings.MODES = [*django_settings.MODES, LIGHTHOUSE]
                settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, LIGHTHOUSE]
                [scenario] = [one for one in read_scenarios() if one.mode == name]
            model = ScriptedModel(scenario=scenario)
            stack.enter_context(substitute_provider(model))
            return model

        yield install_app
