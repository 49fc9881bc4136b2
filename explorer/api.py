"""The world and the scenario of an exploration as JSON."""

from typing import Any
from uuid import UUID

from django.http import HttpRequest
from ninja import Router

from explorer.documents import WorldDocument
from explorer.played_world import WORLD
from explorer.scenario_file import Scenario, parse_scenario, replace_scenario, write_scenario
from explorer.setup import check_exploration, exploration_of
from sessions.chapter.access import get_chapter
from sessions.models import Session
from world.document import write_world

chapter_router = Router(tags=["Explorer"])


@chapter_router.get("/session/{uuid:session_id}/scenario", response=Scenario, by_alias=True)
def get_scenario(request: HttpRequest, session_id: UUID) -> dict[str, Any]:
    """Return the scenario of an exploration, as `PUT` takes it."""
    return write_scenario(exploration_of(_exploration(session_id)))


@chapter_router.put(
    "/session/{uuid:session_id}/scenario",
    response=Scenario,
    by_alias=True,
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Scenario"}}},
        }
    },
)
def put_scenario(request: HttpRequest, session_id: UUID) -> dict[str, Any]:
    """Replace the scenario of an exploration.

    Only names are required. A person is known, and is at the starting place, unless the body says
    otherwise. A place that is named but not listed is added. Without `isPlayer` the persona of Tab
    1 is the player. 422 names the fields that do not fit, and nothing is changed; also for a body
    that is no JSON object. After the lock, the answer is 409.
    """
    # The body is read in the same way as a file, so that a broken body is refused in the same way.
    content = request.body
    saved = replace_scenario(session_id, lambda before: parse_scenario(content, before=before))
    return write_scenario(exploration_of(saved))


@chapter_router.get("/session/{uuid:session_id}/world", response=WorldDocument)
def get_world(request: HttpRequest, session_id: UUID, turn: int | None = None) -> dict[str, Any]:
    """Return the world of an exploration as it is now, or as it was after a turn; `turn=0` is the
    beginning. Hidden people and what everybody knows are included."""
    chapter = _exploration(session_id)
    world = WORLD.now(chapter) if turn is None else WORLD.after_turn(chapter, turn)
    document = write_world(world)
    del document["known_as"]
    return document


def _exploration(session_id: UUID) -> Session:
    chapter = get_chapter(session_id)
    check_exploration(chapter)
    return chapter
