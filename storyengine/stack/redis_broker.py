"""Celery's broker in Redis. It is kombu's broker, but raises the right error after a lost
connection.

When the connection to Redis is lost, kombu still uses channels that it has closed. This raises an
AttributeError, which would end the worker. This module raises a connection error instead, so that
kombu connects again.
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
