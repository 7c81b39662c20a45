"""Keeps gRPC out of the main thread.

A signal raises an exception in the main thread at any instruction. Inside gRPC that can leave a lock held for ever: of
300 interrupted demos, one hung so. What waits here is only `SimpleQueue.get`, which an exception cannot harm.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import TypeVar, cast

Result = TypeVar("Result")


def aside(work: Callable[[], Result]) -> Result:
    """Does some work in a thread of its own and gives its result, or raises its error.

    When the wait is interrupted, the work goes on to its own end; it must have a deadline.
    """
    answer: queue.SimpleQueue[tuple[bool, object]] = queue.SimpleQueue()

    def run() -> None:
        try:
            answer.put((True, work()))
        except BaseException as error:
            answer.put((False, error))

    threading.Thread(target=run, daemon=True, name="grpc").start()
    done, value = answer.get()
    if done:
        return cast("Result", value)
    assert isinstance(value, BaseException)
    raise value
