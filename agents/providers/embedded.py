"""The llama.cpp server that this program runs itself, on loopback."""

from typing import Any

from agents.embedded.access_key import access_key
from agents.embedded.slots import BACKGROUND_SLOT
from agents.providers.base import ModelRequest
from agents.providers.openai_compatible import OpenAICompatibleProvider, Retries, TimeOuts

# Without these a small model repeats itself and the replies in its prompt. They suit prose only: in
# JSON the same keys and marks must come again and again.
_PROSE_SAMPLING = {
    "repeat_penalty": 1.1,
    "repeat_last_n": 512,
    # Names and short phrases, up to so many tokens, may come again; llama.cpp's own default looks
    # back 64 tokens, which is less than a paragraph.
    "dry_multiplier": 0.8,
    "dry_allowed_length": 3,
    "dry_penalty_last_n": 8192,
    # Half of the time the likeliest words are passed over where others are likely too.
    "xtc_probability": 0.5,
    "xtc_threshold": 0.1,
}


class EmbeddedProvider(OpenAICompatibleProvider):
    def __init__(
        self, *, base_url: str, time_outs: TimeOuts | None = None, retries: Retries | None = None
    ) -> None:
        super().__init__(
            base_url=base_url,
            api_key=access_key(),
            name="embedded",
            time_outs=time_outs,
            retries=retries,
        )
        self.subject = "The embedded model"

    def extra_fields(self, request: ModelRequest) -> dict[str, Any]:
        sampling = {} if request.json_schema else _PROSE_SAMPLING
        slot = {"id_slot": BACKGROUND_SLOT} if request.is_background else {}
        return {
            "cache_prompt": True,
            "min_p": 0.05,
            **sampling,
            **slot,
            **super().extra_fields(request),
        }
