"""Saves what was typed on Tab 1, or in the mode's open cells of Tab 2, before a button of the same
form changes a list.

Without scripts, such a button sends the whole form, and the typed values would otherwise be lost.
With scripts, each value has been saved by itself before.
"""

import uuid

from django.http import HttpRequest
from django.urls import resolve, reverse

from sessions.chapter.access import get_chapter
from sessions.chapter.chapters import is_setup_open

# The hidden field of a form without scripts, with the marks of its values as a JSON object.
SEEN_VALUES = "seen_values"


def save_first(request: HttpRequest, session_id: uuid.UUID) -> None:
    """Save the values that the request brings, as the form's own Save does. Raises the errors of
    that page, for example if another window has changed a value."""
    if SEEN_VALUES not in request.POST:
        return
    is_open = is_setup_open(get_chapter(session_id))
    page = "pages:save-world" if is_open else "pages:save-open-setup"
    # A mode may not import the tabs, because the tabs import modes. So the page is found by its
    # address.
    resolve(reverse(page, args=[session_id])).func(request, session_id)
