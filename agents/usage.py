"""What a chapter has used of its models."""

from django.db.models import IntegerField, Sum
from django.db.models.fields.json import KT
from django.db.models.functions import Cast, Coalesce

from sessions.models import Session


def tokens_used(chapter: Session) -> int:
    """Tokens in and out of all calls for this chapter, as their providers reported them."""
    total = chapter.llm_artifacts.aggregate(
        total=Coalesce(Sum(Cast(KT("token_counts__input"), IntegerField())), 0)
        + Coalesce(Sum(Cast(KT("token_counts__output"), IntegerField())), 0)
    )["total"]
    return int(total)
