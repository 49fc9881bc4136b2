"""The provider for the llama.cpp server that this program itself runs on loopback."""

from dataclasses import replace
from typing import Any

from agents.llm.embedded.access_key import access_key
from agents.llm.embedded.slots import BACKGROUND_SLOT
from agents.llm.providers.answers.streamed_answers import TimeOuts
from agents.llm.providers.base import ModelRequest
from agents.llm.providers.east_asian import PROSE_WITHOUT_IT, is_east_asian, without_east_asian
from agents.llm.providers.failures.retries import Retries
from agents.llm.providers.failures.subjects import Subject
from agents.llm.providers.openai_compatible import OpenAICompatibleProvider

# The name of this provider in records.
NAME = "embedded"

# The settings for prose. Without them, a small model repeats its own words and the replies in its
# request. The settings do not suit JSON, which has to repeat its keys and marks.
_PROSE_SAMPLING = {
    "repeat_penalty": 1.1,
    "repeat_last_n": 512,
    # Names and phrases of up to `dry_allowed_length` tokens may be repeated. By default llama.cpp
    # looks back 64 tokens for repetitions, which is shorter than a paragraph.
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 8192,
}
# The settings for JSON. A small model tends to fill every field with the same text. llama.cpp finds
# no repetition across a quotation mark, so repeated keys do not count. It searches about as many of
# the last tokens as an answer has.
_JSON_SAMPLING = {"dry_multiplier": 0.8, "dry_allowed_length": 5, "dry_penalty_last_n": 400}


class EmbeddedProvider(OpenAICompatibleProvider):
    def __init__(
        self, *, base_url: str, time_outs: TimeOuts | None = None, retries: Retries | None = None
    ) -> None:
        super().__init__(
            base_url=base_url,
            api_key=access_key(),
            name=NAME,
            time_outs=time_outs,
            retries=retries,
        )
        self.subject = Subject("The embedded model")

    def extra_fields(self, request: ModelRequest) -> dict[str, Any]:
        # No grammar can be added to tools, because llama.cpp makes a grammar from the tools and
        # accepts no second grammar.
        if not request.tools and not is_east_asian(request.messages):
            request = _without_east_asian(request)
        sampling = _JSON_SAMPLING if request.json_schema else _PROSE_SAMPLING
        slot = {"id_slot": BACKGROUND_SLOT} if request.is_background else {}
        return {
            "cache_prompt": True,
            "min_p": 0.05,
            **sampling,
            **slot,
            **super().extra_fields(request),
        }


def _without_east_asian(request: ModelRequest) -> ModelRequest:
    if request.json_schema is not None:
        return replace(request, json_schema=without_east_asian(request.json_schema))
    return replace(request, extra_body={"grammar": PROSE_WITHOUT_IT, **request.extra_body})
