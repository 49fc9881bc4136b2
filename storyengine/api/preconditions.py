"""Lets a client save something only if nobody has changed it since the client read it."""

import hashlib
import json
import uuid
from collections.abc import Mapping
from typing import Annotated, Any

from django.utils import timezone
from ninja import Header

from sessions.exceptions import ChapterError
from sessions.models import Session
from storyengine.api.documents import Document

IfMatch = Annotated[
    str,
    Header(
        alias="If-Match",
        max_length=200,
        description="The ETag of what the client has read. If somebody has changed it since, "
        "nothing is saved (412). Without it the later of two saves wins.",
    ),
]


class ChangedSince(ChapterError):
    status = 412
    title = "Changed elsewhere"

    def __init__(self) -> None:
        super().__init__(
            "Somebody has changed this since you read it. Nothing was saved: read it again, and "
            "send your change with the new ETag."
        )


def tag_of(document: Document) -> str:
    """Return the ETag of a document."""
    return _tag(document.model_dump_json())


def tag_of_values(values: Mapping[str, Any]) -> str:
    """Return the ETag of a JSON object."""
    return _tag(json.dumps(values, sort_keys=True))


def lock_for_change(session_id: uuid.UUID) -> None:
    """Lock the chapter's row on every database, so that another save waits."""
    Session.objects.filter(pk=session_id).update(updated_at=timezone.now())


def check_match(if_match: str, document: Document) -> None:
    """Raise ChangedSince if the client has read another document."""
    _check(if_match, tag_of(document))


def check_values_match(if_match: str, values: Mapping[str, Any]) -> None:
    """Raise ChangedSince if the client has read another JSON object."""
    _check(if_match, tag_of_values(values))


def _check(if_match: str, tag: str) -> None:
    # A proxy or a compressed answer may have made the client's tag a weak one.
    tags = [one.strip().removeprefix("W/") for one in if_match.split(",")]
    if if_match and "*" not in tags and tag not in tags:
        raise ChangedSince


def _tag(content: str) -> str:
    return f'"{hashlib.sha256(content.encode()).hexdigest()[:24]}"'
