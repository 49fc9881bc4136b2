"""Keeping in a process what takes long to compose and seldom changes."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class KeptRecent(Generic[Key, Value]):
    """The values that were set last, at most `size` of them; several threads may use it."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[Key, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            return self._values.get(key)

    def set(self, key: Key, value: Value) -> None:
        with self._lock:
            self._values.pop(key, None)
            self._values[key] = value
            while len(self._values) > self._size:
                self._values.popitem(last=False)
