"""Celery's broker in Redis. It is kombu's broker, with the right error for a lost connection.

After the connection to Redis is lost, kombu still uses channels that it has closed. This raises an
AttributeError, which ends the worker. An error of the connection makes kombu connect again.
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
