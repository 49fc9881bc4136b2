"""The program's settings with the lighthouse of the tests as a second mode. `make chaos` can use
them."""

from storyengine.settings import *  # noqa: F403
from storyengine.settings import INSTALLED_APPS as _APPS
from storyengine.settings import MODES as _MODES

_LIGHTHOUSE = "storyengine.tests.lighthouse"
MODES = [*_MODES, _LIGHTHOUSE]
INSTALLED_APPS = [*_APPS, _LIGHTHOUSE]
