"""Exports a chapter or a story as a file that other installations can import, and imports such
files."""

import uuid

from django.http import HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from agents.modes.registry import all_modes
from sessions.chapter.access import get_chapter
from sessions.chapter.stories import get_story, title_of
from sessions.exceptions import InvalidInput
from storyengine.exchange.exporting import export_chapter
from storyengine.exchange.file_reading import check_size, is_story
from storyengine.exchange.importing import import_chapter
from storyengine.exchange.story_exporting import export_story
from storyengine.exchange.story_importing import import_story
from storyengine.tabs.action_addresses import home
from storyengine.web.files import file_stem, send_file
from storyengine.web.render import HttpRequest, go


@require_safe
def export_file(request: HttpRequest, session_id: uuid.UUID) -> HttpResponse:
    name = f"{file_stem(get_chapter(session_id).title)}.chapter.json"
    return send_file(name, export_chapter(session_id).to_json(), "application/json")


@require_safe
def export_story_file(request: HttpRequest, story_id: uuid.UUID) -> HttpResponse:
    name = f"{file_stem(title_of(get_story(story_id)))}.story.json"
    return send_file(name, export_story(story_id).to_json(), "application/json")


@require_POST
def import_file(request: HttpRequest) -> HttpResponse:
    """Import a chapter or a story, or begin a chapter from a file of a mode's own. The file says
    which of them it is."""
    upload = request.FILES.get("file")
    if upload is None:
        raise InvalidInput("Choose the file of an exported chapter or story, then import it.")
    check_size(upload.size or 0)
    content = upload.read()
    if is_story(content):
        import_story(content)
        return go(request, home())
    own = (file.begin(content) for mode in all_modes() if (file := mode.setup.file))
    if begun := next(filter(None, own), None):
        return go(request, reverse("pages:world", args=[begun.pk]))
    chapter = import_chapter(content)
    return go(request, reverse("pages:chapter", args=[chapter.pk]))
