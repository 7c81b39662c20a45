"""Carry out the instructions of a measurement, by the agents of a fleet or on a simulated network."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Protocol

from gavotte.agents import Fleet
from gavotte.agents.losses import Losses
from gavotte.agents.pivots import count_by_pivots
from gavotte.agents.routers import count_routers
from gavotte.agents.schedule import Answer, Schedule, carry_out
from gavotte.agents.tiers import find_tiers
from gavotte.measure.adapt.carrier import Carrier
from gavotte.measure.adapt.events import Counted, Experiment, Moment, Tiered
from gavotte.measure.carry.fleet_carrier import FleetCarrier
from gavotte.terms.unix_clock import UnixClock

LOOK_S = 0.5
"""How often a pause between two snapshots checks whether any hosts are left."""


class Agents(Protocol):
    """Hosts that send probes to each other."""

    def moment(self) -> Moment:
        """Return what is known now."""

    def wait(self, until_s: float) -> None:
        """Wait, unless no hosts are left.

        Args:
            until_s: end, by the clock of `Moment.now_s`.
        """

    def rejoin(self) -> None:
        """Take in hosts whose agents were started again."""

    def send(self, schedule: Schedule, round_s: float) -> Iterator[Answer]:
        """Send probes, and yield each outcome.

        Args:
            schedule: the rounds.
            round_s: the longest that one of them may take.
        """

    def count_routers(self, seed: int, *, few: bool = False) -> Counted:
        """Count the routers between any two hosts.

        Args:
            seed: seed of the order.
            few: whether few pairs show the others, because there are many hosts.
        """

    def find_tiers(self, seed: int) -> Tiered:
        """Find racks by round trips.

        Args:
            seed: seed of the choice of pairs.
        """

    def carrier(self, experiment: Experiment) -> Carrier:
        """Return the carrier of all experiments.

        Args:
            experiment: the next one.
        """


class FleetAgents:
    """The enrolled agents of a fleet."""

    def __init__(self, fleet: Fleet, names: Sequence[str]) -> None:
        """Ask for nothing yet.

        Args:
            fleet: enrolled agents.
            names: hosts in matrix order.
        """
        self._fleet = fleet
        self._names = names
        self._clock = UnixClock()
        self._losses = Losses()
        self._carrier: FleetCarrier | None = None

    def moment(self) -> Moment:
        """Return what is known now; see `Agents`."""
        fleet = self._fleet
        return Moment(
            time.monotonic(),
            self._clock(),
            frozenset(host.name for host in fleet.hosts),
            dict(fleet.away),
            len(fleet.lost),
            frozenset(fleet.silent),
            fleet.is_alone(),
            dict(fleet.taken_over),
        )

    def wait(self, until_s: float) -> None:
        """Wait, unless no hosts are left; see `Agents`."""
        while (left_s := until_s - time.monotonic()) > 0 and not self._fleet.is_alone():
            time.sleep(min(left_s, LOOK_S))

    def rejoin(self) -> None:
        """Take in hosts whose agents were started again; see `Agents`."""
        for name in self._fleet.rejoin():
            self._losses.back(name)

    def send(self, schedule: Schedule, round_s: float) -> Iterator[Answer]:
        """Send probes; see `Agents`."""
        return carry_out(self._fleet, schedule, round_s=round_s, losses=self._losses)

    def count_routers(self, seed: int, *, few: bool = False) -> Counted:
        """Count the routers between any two hosts; see `Agents`."""
        here = [host.name for host in self._fleet.hosts]
        routers = (count_by_pivots if few else count_routers)(self.send, here, self._names, seed=seed)
        return Counted(self.moment(), routers.lengths, routers.round_trips_s, routers.blocked, routers.cut)

    def find_tiers(self, seed: int) -> Tiered:
        """Find racks by round trips; see `Agents`."""
        tiers = find_tiers(self.send, [host.name for host in self._fleet.hosts], self._names, seed=seed)
        return Tiered(self.moment(), tiers)

    def carrier(self, experiment: Experiment) -> Carrier:
        """Return the carrier of all experiments; see `Agents`."""
        if self._carrier is None:
            trips = experiment.round_trips
            self._carrier = FleetCarrier(self._fleet, self._names, trains=experiment.trains, round_trips=trips)
        return self._carrier
