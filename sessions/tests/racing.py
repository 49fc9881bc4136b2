"""Functions for tests of races. The tests use real threads and a real database."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from django.db import connection, transaction

from sessions.exceptions import ChapterError

Work = Callable[[], Any]
# After this number of seconds, waiting threads count as being in a deadlock. No test without a
# deadlock takes so long.
LONG = 60.0


def at_once(*works: Work) -> list[Any]:
    """Run the functions at the same time, each in its own thread, and return their results in
    order.

    If a function raises a ChapterError, the error is its result. Any other error is raised again.
    """
    results: list[Any] = [None] * len(works)
    all_are_here = threading.Barrier(len(works))

    def run(number: int, work: Work) -> None:
        try:
            all_are_here.wait(timeout=LONG)
            results[number] = work()
        except BaseException as error:  # noqa: BLE001  (it is raised again, in the test's thread)
            results[number] = error
        finally:
            connection.close()

    threads = [
        threading.Thread(target=run, args=(number, work), daemon=True)
        for number, work in enumerate(works)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LONG)
    assert not any(thread.is_alive() for thread in threads), "They wait for each other."
    for result in results:
        if isinstance(result, BaseException) and not isinstance(result, ChapterError):
            raise result
    return results


@contextmanager
def held_elsewhere(lock: Work) -> Iterator[None]:
    """Call `lock` in a transaction of another thread. The transaction ends after the `with`
    block."""
    is_held, let_go = threading.Event(), threading.Event()

    def hold() -> None:
        try:
            with transaction.atomic():
                lock()
                is_held.set()
                let_go.wait(LONG)
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as other:
        holding = other.submit(hold)
        try:
            assert is_held.wait(LONG), "It could not be locked."
            yield
        finally:
            let_go.set()
        holding.result()


def refusals(results: list[Any]) -> list[ChapterError]:
    return [result for result in results if isinstance(result, ChapterError)]


def successes(results: list[Any]) -> list[Any]:
    return [result for result in results if not isinstance(result, ChapterError)]
