"""Decide which hosts have vanished, from reports of hosts that could not reach each other."""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable

ENOUGH = 2
"""Hosts that a lost host must have lost touch with. A single pair does not show which of the two has vanished."""

TRIES = 2
"""Attempts in a row that fail before a direction counts as closed."""

CLOSED_S = 30.0
"""Time in which a closed direction is not tried again. An attempt takes 1.5 s, and a run has up to ten of each pair."""

NO_INTERFACE = "this host has no interface"
"""Part of an agent's reason when a peer's address names an interface that the agent's host lacks."""


class Losses:
    """What is known about the reachability of hosts so far.

    A host is lost when all of this holds:

    1. It and two others could not reach each other, and it has not succeeded with any host since.
    2. At least one of those two tried the connection itself.
    3. Neither of the two has lost touch with yet another host; such a witness may be the one that vanished.
    4. It does not reach another host itself. A firewall may keep connections from a host that can still connect to
       others (`reaching`).

    Among two hosts none is therefore ever lost, and among three only one that both others miss.

    A direction between two hosts that are not lost counts as closed for `CLOSED_S`, so that a run waits for it once:

    1. if its target, which others cannot reach, reaches another host itself; or
    2. after `TRIES` failures in a row.

    Attributes:
        lost: host to reason.

    Any thread may report what it saw.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Create an object that knows nothing.

        Args:
            clock: returns seconds.
        """
        self.lost: dict[str, str] = {}
        self._clock = clock
        self._failures: Counter[tuple[str, str]] = Counter()
        self._closed_until_s: dict[tuple[str, str], float] = {}
        self._alive: set[str] = set()
        self._lock = threading.RLock()
        self._asking = threading.Lock()
        self._apart: dict[str, set[str]] = defaultdict(set)
        self._missed_by: dict[str, dict[str, str]] = defaultdict(dict)
        self._lacking: dict[tuple[str, str], str] = {}
        self._reaching: set[str] = set()

    def met(self, source: str, target: str) -> None:
        """Record that `source` has reached `target`."""
        with self._lock:
            self._alive |= {source, target}
            self._failures.pop((source, target), None)
            self._closed_until_s.pop((source, target), None)
            for host in (source, target):
                self._apart.pop(host, None)
                self._missed_by.pop(host, None)

    def missed(self, source: str, target: str, why: str) -> None:
        """Record that `source` could not reach `target`."""
        with self._lock:
            if source in self.lost or target in self.lost:
                return
            self._apart[source].add(target)
            self._apart[target].add(source)
            self._missed_by[target][source] = why
            if NO_INTERFACE in why:
                self._lacking[source, target] = why
            self._reaching.discard(source)
            self._failures[source, target] += 1
            if self._failures[source, target] >= TRIES or target in self._reaching:
                self._close(source, target)

    def reaches(self, host: str) -> None:
        """Record that a host which others cannot reach has itself reached another. It stays until it fails to."""
        with self._lock:
            self._reaching.add(host)
            self._alive.add(host)
            for source in self._missed_by.get(host, ()):
                self._close(source, host)

    def closed(self, source: str, target: str) -> str:
        """Return why `source` need not try to reach `target` now; empty when it should."""
        with self._lock:
            if self._closed_until_s.get((source, target), 0.0) <= self._clock():
                return ""
            if (source, target) in self._lacking:
                return self._lacking[source, target]
            if target in self._alive:
                return f"{target} is up, but accepts no TCP connection from {source}: a firewall drops or refuses it"
            return self._missed_by.get(target, {}).get(source) or f"{target} accepts no TCP connection from {source}"

    def _close(self, source: str, target: str) -> None:
        self._closed_until_s[source, target] = self._clock() + CLOSED_S

    def gone(self, host: str, why: str) -> None:
        """Record that a host's agent has disappeared."""
        with self._lock:
            self.lost.setdefault(host, why)
            self._forget(host)

    def back(self, host: str) -> None:
        """Record that a lost host has come back."""
        with self._lock:
            self.lost.pop(host, None)
            self._forget(host)

    def newly_lost(self, reaches: Callable[[str], bool] = lambda _: False) -> dict[str, str]:
        """Return newly lost hosts with the reason.

        Args:
            reaches: whether a host reaches another itself; asked about each host that would be lost.
        """
        # One thread at a time, so that no host is asked twice.
        with self._asking:
            candidates = self._candidates()
            if not candidates:
                return {}
            for host in candidates:
                if reaches(host):
                    self.reaches(host)
            with self._lock:
                # Any host may have succeeded meanwhile.
                losses = {host: reason for host, reason in self._candidates().items() if host in candidates}
                self.lost |= losses
                for host in losses:
                    self._forget(host)
                return losses

    def _candidates(self) -> dict[str, str]:
        with self._lock:
            losses = {}
            for host in sorted(self._missed_by.keys() - self._reaching):
                witnesses = {other for other in self._apart[host] if not self._apart[other] - {host}}
                tried = {other: why for other, why in self._missed_by[host].items() if other in witnesses}
                if len(witnesses) >= ENOUGH and tried:
                    named = " and ".join(sorted(witnesses)[:ENOUGH])
                    losses[host] = f"it and {named} cannot reach each other ({next(iter(tried.values()))})"
            return losses

    def in_doubt(self) -> set[str]:
        """Return hosts that have lost touch with others and have not reached any host since."""
        with self._lock:
            return {host for host, others in self._apart.items() if others}

    def _forget(self, host: str) -> None:
        """Remove a lost host from all records, because failures with it say nothing about the others."""
        for other in self._apart.pop(host, ()):
            if other in self._apart:
                self._apart[other].discard(host)
        self._missed_by.pop(host, None)
        self._reaching.discard(host)
        self._alive.discard(host)
        for pair in [pair for pair in self._failures if host in pair]:
            del self._failures[pair]
            self._closed_until_s.pop(pair, None)
        for blamed in self._missed_by.values():
            blamed.pop(host, None)
