"""Placeholder until the provider is written."""
from urllib.parse import urlsplit
from typing import Any
from openai import AsyncOpenAI, OpenAIError
from agents.providers.base import Finished, Provider, TextDelta, Usage
from agents.providers.exceptions import StreamBroken, ProviderBusy
def host_of(base_url: str) -> str:
    host = urlsplit(base_url).hostname or ""
    return "" if host in ("localhost", "::1") or host.startswith("127.") else host
class OpenAICompatibleProvider(Provider):
    name = "openai"
    def __init__(self, *, base_url: str, api_key: str = "", **kwargs: Any) -> None:
        self.base_url, self.api_key, self.host, self.clients = base_url, api_key, host_of(base_url), {}
    async def stream(self, request: Any) -> Any:
        import asyncio
        loop = asyncio.get_running_loop()
        client = self.clients.get(loop) or self.clients.setdefault(loop, AsyncOpenAI(base_url=self.base_url, api_key=self.api_key or "x", max_retries=2))
        kw: dict[str, Any] = {request.token_parameter: request.max_output_tokens}
        if request.temperature is not None: kw["temperature"] = request.temperature
        try:
            s = await client.chat.completions.create(model=request.model, messages=[{"role": m.role, "content": m.content} for m in request.messages], stream=True, stream_options={"include_usage": True}, **kw)
            usage = None
            async for c in s:
                if c.usage: usage = Usage(c.usage.prompt_tokens, c.usage.completion_tokens)
                if c.choices and c.choices[0].delta.content: yield TextDelta(c.choices[0].delta.content)
        except OpenAIError as e:
            raise ProviderBusy(str(e)) from e
        yield Finished(False, usage)
