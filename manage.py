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
        # This error's text names the variable that has a bad value. A traceback would hide the
        # text.
        sys.exit(f"Story Engine cannot start: {error}")
    except OSError as error:
        # The settings are not loaded yet, so the disk may have been full when they read or created
        # a file.
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.exit(f"Story Engine cannot start: the disk of {error.filename} is full. Make room.")
