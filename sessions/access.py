"""Where a chapter is loaded by its id."""

import uuid

from sessions.exceptions import UnknownChapter
from sessions.models import Session


def get_chapter(session_id: uuid.UUID) -> Session:
    """The chapter with its Tab 1; raises UnknownChapter."""
    try:
        return Session.objects.select_related("tab1").get(pk=session_id)
    except Session.DoesNotExist:
        raise UnknownChapter(
            "There is no such chapter. It may have been reset or deleted; "
            "the list of chapters shows what there is."
        ) from None
