#!/usr/bin/env python
"""Django's command line for Story Engine."""

import errno
import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

from storyengine.stack.parents import end_with_parent

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "storyengine.settings")
    end_with_parent()
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        # Its message names the variable; a traceback would bury it.
        sys.exit(f"Story Engine cannot start: {error}")
    except OSError as error:
        # Before there are settings, whose files it may be about.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.exit(f"Story Engine cannot start: the disk of {error.filename} is full. Make room.")
