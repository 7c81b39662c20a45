"""What a command that goes on until it is stopped makes of signals."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

heard = threading.Event()
"""Set once a command that goes on until it is stopped was told to."""


@contextmanager
def stop_flag() -> Iterator[threading.Event]:
    """An event that the first signal sets; the second does what signals did before."""
    flag = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def stop(_number: int, _frame: object) -> None:
        flag.set()
        heard.set()
        restore()

    for number in before:
        signal.signal(number, stop)
    try:
        yield flag
    finally:
        restore()
