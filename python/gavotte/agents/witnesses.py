"""Has other hosts look at two that have lost touch, at once: which of them has vanished, if either."""

from __future__ import annotations

import logging
import queue
import threading

from gavotte.agents.fleet import Fleet
from gavotte.agents.losses import Losses

logger = logging.getLogger(__name__)

WITNESSES = 2
"""Hosts that look at both."""


class Witnesses:
    """Looks that are under way beside one schedule.

    Whoever has lost touch says so as soon as it knows. Without a look its next partners would wait for the one that is
    gone, each as long again, until two of them have told the same.
    """

    def __init__(self, fleet: Fleet, losses: Losses) -> None:
        """Has asked nobody.

        Args:
            fleet: enrolled agents; it drops those that are found to have vanished.
            losses: what is known of who reaches whom.
        """
        self._fleet = fleet
        self._losses = losses
        self._asked: set[frozenset[str]] = set()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._open = 0

    def ask(self, source: str, target: str) -> None:
        """Has others look at two hosts, unless they do. Returns at once."""
        pair = frozenset((source, target))
        if pair in self._asked or not pair.isdisjoint(self._fleet.lost):
            return
        doubted = self._losses.in_doubt() | pair
        free = [host.name for host in self._fleet.hosts if host.name not in doubted]
        if not free:
            return
        self._asked.add(pair)
        self._open += 1
        threading.Thread(target=self._look, args=(free[:WITNESSES], pair), daemon=True, name="look").start()

    def end(self) -> None:
        """Waits for the looks under way: what comes next is to go without a host that is gone."""
        while self._open:
            self._ended.get()
            self._open -= 1

    def _look(self, witnesses: list[str], pair: frozenset[str]) -> None:
        try:
            found = self._fleet.look(dict.fromkeys(witnesses, sorted(pair)))
            for host in sorted(pair):
                reached = {witness for witness, taken in found.items() if host in taken}
                logger.debug("%s looked at %s; those that reached it: %s", sorted(found), host, sorted(reached))
                # Of a host that one of them reached, the other was too slow to.
                for witness in reached:
                    self._losses.met(witness, host)
                for witness in found if not reached else ():
                    self._losses.missed(witness, host, "it takes no connections")
            drop_lost(self._fleet, self._losses)
        except ValueError as error:
            # The roads may be closed meanwhile.
            logger.debug("nobody looked at %s: %s", sorted(pair), error)
        finally:
            self._asked.discard(pair)
            self._ended.put(None)


def drop_lost(fleet: Fleet, losses: Losses) -> None:
    """Goes on without those that were newly lost."""
    for host, reason in losses.newly_lost().items():
        fleet.drop(host, reason)
