"""A cache in this process, for values that take long to make and seldom change."""

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class KeptRecent(Generic[Key, Value]):
    """A cache of the values that were set last, up to the total size `room`.

    Several threads may share the cache. A value has the size 1 unless the caller of `set` gives
    another size.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Value | None:
        with self._lock:
            kept = self._values.get(key)
        return None if kept is None else kept[0]

    def set(self, key: Key, value: Value, *, size: int = 1) -> None:
        with self._lock:
            self._drop(key)
            self._values[key] = (value, size)
            self._room -= size
            # The newest value is always kept, even if its size is larger than `room`.
            while self._room < 0 and len(self._values) > 1:
                self._drop(next(iter(self._values)))

    def _drop(self, key: Key) -> None:
        if key in self._values:
            self._room += self._values.pop(key)[1]
