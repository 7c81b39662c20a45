"""Simulate the experiments in advance, on the known rates of a network, to predict their bytes and duration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gavotte import _core
from gavotte.formats.history import Floats
from gavotte.formats.network import FORMAT, Group, Host, Network
from gavotte.measure.adapt.overlap import Series
from gavotte.measure.plan.holds import BIN_S, START_TRIPS, TRAIN_PAUSE_S, hold_of_transfers, hold_of_ways, is_far
from gavotte.measure.plan.methods.train import TRAIN_FILL_BYTES
from gavotte.measure.plan.round_trips import RoundTrips
from gavotte.measure.plan.trials import Way
from gavotte.terms import Pair
from gavotte.terms.goodput import path_goodput_per_udp_payload
from gavotte.terms.hierarchy import Hierarchy, limited_groups

SETUP_S = 0.04
"""Time of one round: a call to each agent, connections, pings, the report.

In labs of 3 to 12 hosts the experiments took the predicted time to within 5 %.
"""

LONGEST_S = 60.0


@dataclass(frozen=True)
class _Flows:
    source: npt.NDArray[np.uint32]
    target: npt.NDArray[np.uint32]
    bytes: npt.NDArray[np.uint64]
    start_s: Floats
    weight: None = None
    cap_bps: None = None
    startup_s: None = None
    label: None = None


class PlayedCarrier:
    """A `Carrier` that sends nothing, and predicts rates as max-min fair shares of a known Network's links.

    Attributes:
        bytes_sent: payload bytes that hosts would have sent so far.
        seconds: time that the runs would have taken.
    """

    def __init__(self, network: Network, *, trains: bool, round_trips: RoundTrips | None = None) -> None:
        """Create a carrier that has sent nothing yet.

        Args:
            network: the known Network; pairs without a rate carry nothing.
            trains: whether pairs without a common host would send trains, not TCP.
            round_trips: known round trips, by which far pairs take more time.
        """
        self.bytes_sent = 0
        self.seconds = 0.0
        self._network = network
        self._platform = _core.Platform.network(_core.Network(network))
        self._trains = trains
        self._round_trips = round_trips or RoundTrips({})
        self._hold_s = hold_of_ways(trains=trains)

    def carry(self, groups: Sequence[Sequence[Pair]], expect_bps: Mapping[Pair, float], way: Way) -> dict[Pair, Series]:
        """Play a run on all pairs; see `Carrier`."""
        pairs = [pair for group in groups for pair in group]
        round_trip_s = self._round_trips.slowest_s(pairs)
        by_trains = way == "disjoint" and self._trains
        sizes = np.array([expect_bps[pair] / 8 for pair in pairs]) * hold_of_transfers(groups, expect_bps, round_trip_s)
        flows = _flows(pairs, sizes)
        rates = self._platform.rates(flows)
        hold_s, pause_s = self._hold_s[way], self._round_trips.ready_s(pairs)
        if way == "fan-out" or (is_far(round_trip_s) and not by_trains):
            result = self._platform.simulate(flows, edges=None, phase=None, background=(), until_s=LONGEST_S, seed=0)
            hold_s = float(np.nanmax(result.finish_s, initial=0.0))
            self.bytes_sent += int(sizes.sum())
        elif by_trains:
            pause_s = max(TRAIN_PAUSE_S, pause_s)
            kept = np.array([path_goodput_per_udp_payload(self._network, *pair) for pair in pairs])
            self.bytes_sent += int((rates / kept).sum() / 8 * hold_s) + len(pairs) * TRAIN_FILL_BYTES
        else:
            hold_s += START_TRIPS * round_trip_s
            self.bytes_sent += int(rates.sum() / 8 * hold_s)
        self.seconds += SETUP_S + pause_s + hold_s
        bins = max(2, round(hold_s / BIN_S))
        return {
            pair: Series(0.0, BIN_S, np.full(bins, float(rate) * BIN_S))
            for pair, rate in zip(pairs, rates, strict=True)
        }

    def gone(self) -> Set[int]:
        """Return no hosts; see `Carrier`."""
        return frozenset()


def _tested(host: Host) -> Host:
    return host if host.ingress_low_bps is None else host.model_copy(update={"ingress_bps": None})


def shares(platform: _core.Platform, pairs: Sequence[Pair]) -> Floats:
    """Return the rates of pairs that send at the same time, max-min fair, bit/s.

    Args:
        platform: a measured network.
        pairs: (source, target) host indices.
    """
    return platform.rates(_flows(pairs, np.ones(len(pairs))))


def _flows(pairs: Sequence[Pair], sizes: Floats) -> _Flows:
    ends = np.array(pairs, dtype=np.uint32)
    return _Flows(ends[:, 0].copy(), ends[:, 1].copy(), sizes.astype(np.uint64), np.zeros(len(pairs)))


def network_of(names: Sequence[str], rate: Floats, known: Network | None) -> Network:
    """Return the network that experiments will probably meet.

    Args:
        names: hosts in matrix order.
        rate: (N, N) bit/s of each pair alone; NaN = unknown.
        known: an earlier Network, for caps and groups. With None, or with a Network of untested caps, each host sends
            as much as it does on its fastest path, as in most clouds. An untested Network has no limit on what hosts
            receive, though none was seen to receive more.
    """
    tested = {} if known is None else {host.name: _tested(host) for host in known.hosts}
    hosts = []
    for name, row in zip(names, rate, strict=True):
        fastest = row[np.isfinite(row)].max(initial=0.0)
        usual = Host(name=name, egress_bps=fastest or None) if known is None else Host(name=name)
        hosts.append(tested.get(name, usual))
    here = set(names)
    groups = [] if known is None else known.groups
    groups = [group.model_copy(update={"members": [m for m in group.members if m in here]}) for group in groups]
    return Network(
        format=FORMAT,
        hosts=hosts,
        rate_bps=[[float(bps) if bps >= 1 else None for bps in row] for row in rate],
        groups=groups,
        sharing="hose" if known is None else known.sharing,
        mtu_bytes=[] if known is None else known.mtus_of(names),
    ).cautious()


def groups_seen(tree: Hierarchy, shared_bps: Mapping[str, float]) -> list[Group]:
    """Return the clusters of a tree as groups, limited by what their links were seen to carry.

    Args:
        tree: tree of all hosts.
        shared_bps: load of links that were full, by label, bit/s.
    """
    up: dict[int, float] = {}
    down: dict[int, float] = {}
    for number, link in enumerate(tree.links):
        if (bps := shared_bps.get(tree.label(number))) is not None:
            # Of links that the same paths cross, one limits.
            (up if link.out_of else down)[(link.out_of or link.into)[0]] = bps
    return list(limited_groups(tree, up, down))
