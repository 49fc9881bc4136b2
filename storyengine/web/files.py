"""Answers with files that a browser stores."""

from django.http import HttpResponse
from django.utils.http import content_disposition_header
from django.utils.text import slugify


def file_stem(title: str) -> str:
    """Return the title of a chapter in a form that can begin the name of a file."""
    return slugify(title, allow_unicode=True)[:60].strip("-") or "chapter"


def send_file(name: str, content: bytes, media_type: str) -> HttpResponse:
    response = HttpResponse(content, content_type=media_type)
    response["Content-Disposition"] = content_disposition_header(True, name) or "attachment"
    return response
