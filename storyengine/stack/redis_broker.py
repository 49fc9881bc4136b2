"""Celery's broker in Redis: kombu's, with a lost connection that says so.

After it has lost Redis, kombu gives back and acknowledges what was taken over channels that it has
taken apart already. It meets an AttributeError there, which a worker dies of, where an error of the
connection has it connect again.
"""

from typing import Any

from kombu.transport import redis
from redis.exceptions import ConnectionError as RedisConnectionError


class Channel(redis.Channel):
    def _connparams(self, asynchronous: bool = False) -> Any:
        if self.connection.client is None:
            raise RedisConnectionError("This channel's connection was given up.")
        return super()._connparams(asynchronous=asynchronous)  # type: ignore[misc]  # not in stubs


class Transport(redis.Transport):
    Channel = Channel
