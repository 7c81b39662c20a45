"""Retry hosts that are missing when a broadcast begins, disappear during it, or are added later."""

from __future__ import annotations

import logging
import queue
import threading

from gavotte.agents import Fleet

logger = logging.getLogger(__name__)

RETRY_S = 1.0
"""Pause after each attempt."""

STOP_S = 0.5
"""Time that the end waits for a running attempt. It has its own deadlines; the end of the run closes what it opens."""


class Latecomers:
    """Retries of missing hosts, each in a thread of its own, so that a host that keeps ssh waiting delays no other.

    Attributes:
        sought: host to the reason why its last attempt failed.
    """

    def __init__(self, fleet: Fleet) -> None:
        self.sought: dict[str, str] = {}
        self._fleet = fleet
        self._here: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._untried: set[str] = set()
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def seek(self, name: str, why: str, *, at_once: bool = False) -> None:
        """Retry a host from now on, or after a pause."""
        if name in self.sought or self._over.is_set():
            return
        self.sought[name] = why
        if at_once:
            self._untried.add(name)
        thread = threading.Thread(target=self._try, args=(name, at_once), daemon=True, name=f"seek-{name}")
        self._threads.append(thread)
        thread.start()

    def untried(self) -> bool:
        """Return whether a host to be tried at once was not tried yet, or has answered since the last `came`."""
        return bool(self._untried) or not self._here.empty()

    def came(self) -> list[str]:
        """Return hosts that have joined since the last call. Does not wait."""
        names = []
        while not self._here.empty():
            names.append(self._here.get())
            self.sought.pop(names[-1], None)
        return names

    def stop(self) -> None:
        """Stop all attempts."""
        self._over.set()
        for thread in self._threads:
            thread.join(STOP_S)

    def _try(self, name: str, at_once: bool) -> None:
        while not self._over.wait(0.0 if at_once else RETRY_S):
            at_once = False
            try:
                why = self._fleet.admit(name)
            except ValueError as error:
                # The channels are closed while an attempt is running.
                logger.debug("%s: no longer retried: %s", name, error)
                return
            if not why:
                self._here.put(name)
            self._untried.discard(name)
            if not why:
                return
            self.sought[name] = why
