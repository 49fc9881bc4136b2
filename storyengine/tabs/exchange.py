"""Exports a chapter as a file that other installations can import, and imports such a file."""

import uuid

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from sessions.access import get_chapter
from sessions.exceptions import InvalidInput
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.reading import check_size
from storyengine.web.files import file_stem, send_file
from storyengine.web.render import HttpRequest, go


@require_safe
def export_file(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    name = f"{file_stem(get_chapter(session_id).title)}.chapter.json"
    return send_file(name, export_chapter(session_id).to_json(), "application/json")


@require_POST
def import_file(request: HttpRequest) -> HttpResponse:
    upload = request.FILES.get("file")
    if upload is None:
        raise InvalidInput("Choose the file of an exported chapter, then import it.")
    check_size(upload.size or 0)
    chapter = import_chapter(upload.read())
    return go(request, reverse("pages:chapter", args=[chapter.pk]))
