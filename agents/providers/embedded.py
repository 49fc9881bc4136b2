"""The llama.cpp server that this program runs itself, on loopback."""

from typing import Any

from agents.embedded.access_key import access_key
from agents.providers.base import ModelRequest
from agents.providers.openai_compatible import OpenAICompatibleProvider, Retries, TimeOuts

# Small models repeat themselves without these. They only suit prose: in JSON the same keys and
# marks must come again and again.
_PROSE_SAMPLING = {"repeat_penalty": 1.1, "dry_multiplier": 0.8}


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
        return {"cache_prompt": True, "min_p": 0.05, **sampling, **super().extra_fields(request)}
