"""Celery's broker in Redis. It is kombu's broker, but raises a proper error for a lost connection.

After the connection to Redis is lost, kombu returns and acknowledges messages over channels that it
has closed. It then meets an AttributeError, which ends a worker. An error of the connection makes
it connect again instead.
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
