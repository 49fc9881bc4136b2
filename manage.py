#!/usr/bin/env python
"""Django's command line for Story Engine."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # Its message names the variable; a traceback would bury it.
        sys.exit(f"Story Engine cannot start: {error}")
