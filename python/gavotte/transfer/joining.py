"""Hosts that are not there when a broadcast begins, that go, or that are named later: tried until they take part."""

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
        self._untried: set[str] = set()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def seek(self, name: str, why: str, *, at_once: bool = False) -> None:
        """Tries a host from now on, or after a pause."""
        if name in self.sought or self._over.is_set():
            return
        self.sought[name] = why
        if at_once:
            self._untried.add(name)
        thread = threading.Thread(target=self._try, args=(name, at_once), daemon=True, name=f"seek-{name}")
        self._threads.append(thread)
        thread.start()

    def untried(self) -> bool:
        """Whether a host that is sought at once was not tried yet, or answered since `came` was asked."""
        return bool(self._untried) or not self._here.empty()

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

    def _try(self, name: str, at_once: bool) -> None:
        while not self._over.wait(0.0 if at_once else RETRY_S):
            at_once = False
            try:
                why = self._fleet.admit(name)
            except ValueError as error:
                # The roads are closed while a try is under way.
                logger.debug("%s: is tried no more: %s", name, error)
                return
            if not why:
                self._here.put(name)
            self._untried.discard(name)
            if not why:
                return
            self.sought[name] = why
