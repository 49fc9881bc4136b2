"""The JSON API, whose addresses begin with `api/`."""

from ninja.openapi.docs import Swagger

from agents.modes.registry import modules_of_modes
from storyengine.api import (
    background_routes,
    call_routes,
    canon_routes,
    chapter_model_routes,
    chapter_routes,
    consent_routes,
    draft_routes,
    file_routes,
    model_routes,
    play_routes,
    search_routes,
    starter_routes,
    story_routes,
    trial_routes,
    working_copy_routes,
)
from storyengine.api.interface import JsonRenderer, ProblemAPI, StrictJsonParser
from storyengine.api.problems import add_problem_handlers

DESCRIPTION = (
    "A chapter from setup to prose. Errors are problem documents (RFC 9457). "
    "Characters are counted as code points, a line break as one; what is over a cap is refused, "
    "never cut. With a password or a token set, send the token as `Authorization: Bearer`; after "
    "ten wrong ones from one address the API answers 429 for five minutes."
)

api = ProblemAPI(
    title="Story Engine",
    version="1.0",
    description=DESCRIPTION,
    urls_namespace="api",
    renderer=JsonRenderer(),
    parser=StrictJsonParser(),
    # By default, the documentation page would send the API's schema to a validator on another host.
    docs=Swagger({"validatorUrl": None}),
)
add_problem_handlers(api)
for module in (
    story_routes,
    chapter_routes,
    starter_routes,
    file_routes,
    play_routes,
    background_routes,
    draft_routes,
    working_copy_routes,
    call_routes,
    trial_routes,
    canon_routes,
    search_routes,
    consent_routes,
    model_routes,
    chapter_model_routes,
):
    api.add_router("", module.router)
for name, mode_api in modules_of_modes("api").items():
    if hasattr(mode_api, "router"):
        api.add_router(f"/modes/{name}", mode_api.router)
    # The addresses that a mode adds for its chapters.
    if hasattr(mode_api, "chapter_router"):
        api.add_router("", mode_api.chapter_router)
