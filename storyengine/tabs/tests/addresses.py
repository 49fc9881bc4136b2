from typing import Any

from django.urls import reverse

from sessions.models import Session


def address(chapter: Session, name: str, *arguments: Any) -> str:
    return reverse(f"pages:{name}", args=[chapter.pk, *arguments])
