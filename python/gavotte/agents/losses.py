"""Which hosts have vanished, told from who could not reach whom."""

from __future__ import annotations

import threading
from collections import defaultdict

ENOUGH = 2
"""Hosts that one must have lost touch with: of a single pair nobody knows which of the two has vanished."""


class Losses:
    """What is known of hosts' reachability so far.

    A host is lost when it and two others could not reach each other with no success of its own since, one of those
    two at least having tried itself. A witness that has lost touch with yet another host does not count, for it may
    be the one that vanished. So of two hosts nobody is ever lost, and of three only one that both others miss.

    Attributes:
        lost: host to reason.

    Any thread may tell of what it saw.
    """

    def __init__(self) -> None:
        self.lost: dict[str, str] = {}
        self._lock = threading.RLock()
        self._apart: dict[str, set[str]] = defaultdict(set)
        self._missed_by: dict[str, dict[str, str]] = defaultdict(dict)

    def met(self, source: str, target: str) -> None:
        """Takes that two hosts have reached each other."""
        with self._lock:
            for host in (source, target):
                self._apart.pop(host, None)
                self._missed_by.pop(host, None)

    def missed(self, source: str, target: str, why: str) -> None:
        """Takes that `source` could not reach `target`."""
        with self._lock:
            if source in self.lost or target in self.lost:
                return
            self._apart[source].add(target)
            self._apart[target].add(source)
            self._missed_by[target][source] = why

    def gone(self, host: str, why: str) -> None:
        """Takes that a host's agent has gone."""
        with self._lock:
            self.lost.setdefault(host, why)
            self._forget(host)

    def back(self, host: str) -> None:
        """Takes that a lost host has come back."""
        with self._lock:
            self.lost.pop(host, None)
            self._forget(host)

    def newly_lost(self) -> dict[str, str]:
        """Newly lost hosts with the reason."""
        with self._lock:
            found = {}
            for host in sorted(self._missed_by):
                witnesses = {other for other in self._apart[host] if not self._apart[other] - {host}}
                tried = {other: why for other, why in self._missed_by[host].items() if other in witnesses}
                if len(witnesses) >= ENOUGH and tried:
                    named = " and ".join(sorted(witnesses)[:ENOUGH])
                    found[host] = f"it and {named} cannot reach each other ({next(iter(tried.values()))})"
            for host, reason in found.items():
                self.lost[host] = reason
            for host in found:
                self._forget(host)
            return found

    def in_doubt(self) -> set[str]:
        """Hosts that have lost touch with others, and have met nobody since."""
        with self._lock:
            return {host for host, others in self._apart.items() if others}

    def _forget(self, host: str) -> None:
        """What others had against a lost host, or it against them, says nothing of them."""
        for other in self._apart.pop(host, ()):
            if other in self._apart:
                self._apart[other].discard(host)
        self._missed_by.pop(host, None)
        for blamed in self._missed_by.values():
            blamed.pop(host, None)
