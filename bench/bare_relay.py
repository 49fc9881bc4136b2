"""What the engine's delay is compared with: a Django that relays a model's words and no more.

python -m bench.bare_relay PORT serves POST /api/session/<id>/prompt as server-sent events. It
stores the prompt, asks the model, passes each piece on, and stores the reply: the engine's two
commits, on a database with the engine's settings. The body may name the model and `max_tokens`.
There is no middleware, no chapter, no memory, and no record of the call; a reader who leaves takes
the reply along.
"""

import json
import os
import sys
from collections.abc import AsyncGenerator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import django
import openai
import uvicorn
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection, models
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path

from storyengine.settings.environment import read_database

MODEL = "agent-1"

if not settings.configured:
    folder = Path(os.environ["STORYENGINE_DATA"]) / "bare-relay"
    folder.mkdir(parents=True, exist_ok=True)
    settings.configure(
        DATABASES={"default": read_database(folder)},
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["127.0.0.1"],
        SECRET_KEY="of no use",  # noqa: S106  (nothing is signed)
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


class Prompt(models.Model):
    objects: ClassVar[models.Manager["Prompt"]] = models.Manager()

    text = models.TextField()
    reply = models.TextField(blank=True)

    class Meta:
        app_label = "bare_relay"

    def __str__(self) -> str:
        return self.text


@cache
def client() -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=os.environ["OPENAI_BASE_URL"], api_key="unused")


async def send_prompt(request: HttpRequest, session_id: str) -> StreamingHttpResponse:
    body = json.loads(request.body)
    prompt = await Prompt.objects.acreate(text=body["user_text"])
    relayed = _relay(prompt, body.get("model", MODEL), body.get("max_tokens"))
    return StreamingHttpResponse(relayed, content_type="text/event-stream")


async def _relay(prompt: Prompt, model: str, max_tokens: int | None) -> AsyncGenerator[bytes]:
    parts: list[str] = []
    chunks = await client().chat.completions.create(
        model=model,
        stream=True,
        max_tokens=max_tokens,
        messages=[{"role": "user", "content": prompt.text}],
    )
    async for chunk in chunks:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            parts.append(text)
            yield _event("token", {"text": text})
    prompt.reply = "".join(parts)
    await prompt.asave()
    yield _event("turn", {"text": prompt.reply})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


urlpatterns = [path("api/session/<str:session_id>/prompt", send_prompt)]


def main(port: int) -> None:
    with connection.schema_editor() as schema:
        schema.create_model(Prompt)
    connection.close()
    uvicorn.run(get_asgi_application(), port=port, log_level="warning", lifespan="off")


if __name__ == "__main__":
    main(int(sys.argv[1]))
