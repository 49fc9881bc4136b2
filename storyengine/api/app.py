"""The JSON API, whose addresses begin with `api/`."""

from ninja.openapi.docs import Swagger

from agents.modes import modules_of_modes
from storyengine.api import (
    background,
    calls,
    canon,
    chapter_models,
    chapters,
    consent,
    drafts,
    exchange,
    models,
    play,
    search,
    starters,
    stories,
    trials,
    working_copies,
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
    stories,
    chapters,
    starters,
    exchange,
    play,
    background,
    drafts,
    working_copies,
    calls,
    trials,
    canon,
    search,
    consent,
    models,
    chapter_models,
):
    api.add_router("", module.router)
for name, mode_api in modules_of_modes("api").items():
    if hasattr(mode_api, "router"):
        api.add_router(f"/modes/{name}", mode_api.router)
    # What a mode adds to the addresses of its chapters.
    if hasattr(mode_api, "chapter_router"):
        api.add_router("", mode_api.chapter_router)
