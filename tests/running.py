"""Controllers of transfers that run during a test."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from gavotte.transfer import Controller


@contextmanager
def running(controller: Controller) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=controller.run, args=(stop,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
