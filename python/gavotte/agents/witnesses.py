"""Find out which of two hosts that cannot reach each other has vanished, if either: other hosts try to reach both."""

from __future__ import annotations

import logging
import queue
import threading

from gavotte.agents.calls import aside
from gavotte.agents.fleet import Fleet
from gavotte.agents.losses import Losses

logger = logging.getLogger(__name__)

WITNESSES = 2
"""Number of hosts that try to reach both."""

MOST_TRIES = 8
"""Most hosts that a host which the others cannot reach tries to reach itself."""


class Witnesses:
    """Checks that run at the same time as one schedule.

    A host that has lost touch with another reports it at once. Without these checks every next partner of the vanished
    host would wait for it as long again, until two of them have reported it.
    """

    def __init__(self, fleet: Fleet, losses: Losses) -> None:
        """Create an object that has asked no host yet.

        Args:
            fleet: enrolled agents. Hosts that have vanished are dropped from it.
            losses: what is known about which host reaches which.
        """
        self._fleet = fleet
        self._losses = losses
        self._asked: set[frozenset[str]] = set()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._open = 0

    def ask(self, source: str, target: str) -> None:
        """Let other hosts check these two, unless a check runs already. Returns at once."""
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
        """Wait for the running checks, so that later work leaves out a host that is gone."""
        while self._open:
            self._ended.get()
            self._open -= 1

    def _look(self, witnesses: list[str], pair: frozenset[str]) -> None:
        try:
            replies = self._fleet.look(dict.fromkeys(witnesses, sorted(pair)))
            for host in sorted(pair):
                reached = {witness for witness, taken in replies.items() if host in taken}
                logger.debug("%s looked at %s; those that reached it: %s", sorted(replies), host, sorted(reached))
                # A host that one witness reached is alive; the other witness timed out.
                for witness in reached:
                    self._losses.met(witness, host)
                for witness in replies if not reached else ():
                    self._losses.missed(witness, host, "it accepts no connections")
            drop_lost(self._fleet, self._losses)
        except ValueError as error:
            # The channels may be closed meanwhile.
            logger.debug("no host looked at %s: %s", sorted(pair), error)
        finally:
            self._asked.discard(pair)
            self._ended.put(None)


def drop_lost(fleet: Fleet, losses: Losses) -> None:
    """Continue without the hosts that were newly lost. Any thread may call this.

    A host that a firewall closes to the others stays if it reaches another itself: those paths can be used.
    """

    def reaches(host: str) -> bool:
        others = [other.name for other in fleet.hosts if other.name != host][:MOST_TRIES]
        taken = aside(lambda: fleet.look({host: others})) if others and host not in fleet.away else {}
        logger.debug("%s looked at %s; reached: %s", host, others, sorted(taken.get(host, ())))
        return bool(taken.get(host))

    for host, reason in losses.newly_lost(reaches).items():
        fleet.drop(host, reason)
