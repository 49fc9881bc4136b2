"""A Django program that only relays a model's words. The benchmark compares the engine's delay with
the delay of this relay.

python -m bench.bare_relay PORT [--pool] serves POST /api/session/<id>/prompt as server-sent events.
The relay stores the prompt, sends the model only this prompt, passes each piece of the model's
answer on to the client, and stores the whole answer as the reply. The engine's own functions store
prompt and reply in the engine's tables. Under the path /smallest the relay instead stores one row,
which has the prompt and the reply. The body of a request may name the model and `max_tokens`.

The relay has no middleware, no memory and no lease, and it records no call. If the client leaves,
the relay stops reading the model's answer. As in any Django program under ASGI, each request has a
thread of its own and opens a new connection to the database. With --pool a request takes its
connection from a pool for PostgreSQL, as in the engine.
"""

import json
import os
import sys
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar

import django
import openai
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.db import connection, models
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path

from storyengine.settings.environment import read_database

MODEL = "agent-1"


def _database() -> dict[str, Any]:
    """Return the engine's database settings, without the connection pool unless --pool is given."""
    database = read_database(Path(os.environ["STORYENGINE_DATA"]))
    if "--pool" not in sys.argv:
        database["OPTIONS"].pop("pool", None)
    return database


if not settings.configured:
    settings.configure(
        DATABASES={"default": _database()},
        INSTALLED_APPS=["sessions"],
        ROOT_URLCONF=__name__,
        ALLOWED_HOSTS=["127.0.0.1"],
        SECRET_KEY="of no use",  # noqa: S106  (nothing is signed)
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
    )
    django.setup()


from sessions.attempts import open_prompt  # noqa: E402  (its models need settings)
from sessions.committing import commit_attempt  # noqa: E402


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


async def send_prompt(request: HttpRequest, session_id: uuid.UUID) -> StreamingHttpResponse:
    body = json.loads(request.body)
    opened = await sync_to_async(open_prompt)(
        session_id,
        actor=body["agent_slot"],
        words=body["user_text"],
        submission_key="",
    )
    return _relay(body, partial(sync_to_async(commit_attempt), opened.attempt))


async def send_smallest(request: HttpRequest, session_id: uuid.UUID) -> StreamingHttpResponse:
    body = json.loads(request.body)
    prompt = await Prompt.objects.acreate(text=body["user_text"])

    async def store(reply: str) -> None:
        prompt.reply = reply
        await prompt.asave()

    return _relay(body, store)


def _relay(
    body: dict[str, Any], store: Callable[[str], Awaitable[object]]
) -> StreamingHttpResponse:
    return StreamingHttpResponse(_stream(body, store), content_type="text/event-stream")


async def _stream(
    body: dict[str, Any], store: Callable[[str], Awaitable[object]]
) -> AsyncGenerator[bytes]:
    parts: list[str] = []
    chunks = await client().chat.completions.create(
        model=body.get("model", MODEL),
        stream=True,
        max_tokens=body.get("max_tokens"),
        messages=[{"role": "user", "content": body["user_text"]}],
    )
    async for chunk in chunks:
        if chunk.choices and (text := chunk.choices[0].delta.content):
            parts.append(text)
            yield _event("token", {"text": text})
    reply = "".join(parts)
    await store(reply)
    yield _event("turn", {"text": reply})


def _event(name: str, data: dict[str, Any]) -> bytes:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n".encode()


urlpatterns = [
    path("api/session/<uuid:session_id>/prompt", send_prompt),
    path("smallest/api/session/<uuid:session_id>/prompt", send_smallest),
]


def main(port: int) -> None:
    # Another relay that uses this database may have made the table already.
    if Prompt._meta.db_table not in connection.introspection.table_names():
        with connection.schema_editor() as schema:
            schema.create_model(Prompt)
    connection.close()
    uvicorn.run(get_asgi_application(), port=port, log_level="warning", lifespan="off")


if __name__ == "__main__":
    main(int(sys.argv[1]))
