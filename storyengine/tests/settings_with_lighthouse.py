"""The settings with a second way to play, that of the tests, as `make chaos` can be told to use."""

from storyengine.settings import *  # noqa: F403
from storyengine.settings import INSTALLED_APPS as _APPS
from storyengine.settings import MODES as _MODES

_LIGHTHOUSE = "storyengine.tests.lighthouse"
MODES = [*_MODES, _LIGHTHOUSE]
INSTALLED_APPS = [*_APPS, _LIGHTHOUSE]
