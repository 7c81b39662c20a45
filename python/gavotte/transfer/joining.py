"""Hosts that are not there when a broadcast begins, or whose agents go: tried again until they take part."""

from __future__ import annotations

import logging
import queue
import threading

from gavotte.agents import Fleet

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause after each try."""

STOP_S = 0.5
"""How long the end waits for a try under way. It has deadlines of its own; what it opens is closed with the run."""


class Latecomers:
    """Tries hosts again, each in a thread of its own: one that keeps ssh waiting delays no other.

    Attributes:
        sought: host to why it did not take part when last tried.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.sought: dict[str, str] = {}
        self._fleet = fleet
        self._here: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def seek(self, name: str, why: str) -> None:
        """Tries a host from now on."""
        if name in self.sought or self._over.is_set():
            return
        self.sought[name] = why
        thread = threading.Thread(target=self._try, args=(name,), daemon=True, name=f"seek-{name}")
        self._threads.append(thread)
        thread.start()

    def came(self) -> list[str]:
        """Hosts that take part since the last call. Does not wait."""
        found = []
        while not self._here.empty():
            found.append(self._here.get())
            self.sought.pop(found[-1], None)
        return found

    def stop(self) -> None:
        """Tries nobody any more."""
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_S)

    def _try(self, name: str) -> None:
        while not self._over.wait(RETRY_S):
            try:
                why = self._fleet.admit(name)
            except ValueError as error:
                # The roads are closed while a try is under way.
                logger.debug("%s: is tried no more: %s", name, error)
                return
            if not why:
                self._here.put(name)
                return
            self.sought[name] = why
