"""Search for slow uplinks of racks: the search for slow hosts, with racks in the place of hosts.

Two racks are probed by several pairs of hosts that send at the same time. Their sum is the rate of the two racks. All
racks send from equally many hosts, so that the sums compare.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from gavotte.formats.network import Group
from gavotte.measure.plan.pools import innermost
from gavotte.measure.plan.rounds import packed
from gavotte.measure.slow.searching import FEWEST, Oracle, Round, SearchResult, find_slow
from gavotte.measure.slow.verdicts import Threshold
from gavotte.terms import Pair

RACK_HOSTS = 2
"""A rack with fewer usable hosts than this is not compared: its uplink is the host's own."""

SMALL_RACK = 0.5
"""A rack with less than this share of the usual number of hosts is not compared: the others could send only as many."""


@dataclass(frozen=True)
class Racks:
    """Racks whose uplinks are compared.

    Attributes:
        names: names of the racks.
        hosts: numbers of the hosts in each.
        left_out: names of racks with too few hosts to compare them.
    """

    names: Sequence[str]
    hosts: Sequence[Sequence[int]]
    left_out: Sequence[str] = ()

    @property
    def pairs(self) -> int:
        """Pairs of hosts that two racks are probed by."""
        return min(map(len, self.hosts), default=0)

    @property
    def enough(self) -> bool:
        """Whether there are enough racks to distinguish a slow one from its partner."""
        return len(self.names) >= FEWEST


def racks_of(groups: Sequence[Group], names: Sequence[str], usable: Collection[int] | None = None) -> Racks:
    """Return the innermost groups as racks to compare.

    Args:
        groups: groups of a Network.
        names: names of the hosts, by number.
        usable: numbers of the hosts that may send; None = all.
    """
    racks = {
        name: [host for host in hosts if usable is None or host in usable]
        for name, hosts in innermost(groups, names).items()
    }
    several = [len(hosts) for hosts in racks.values() if len(hosts) >= RACK_HOSTS]
    least = max(RACK_HOSTS, SMALL_RACK * median(several)) if several else RACK_HOSTS
    compared = {name: hosts for name, hosts in racks.items() if len(hosts) >= least}
    left_out = [name for name in racks if name not in compared]
    return Racks(list(compared), list(compared.values()), left_out)


def find_slow_uplinks(
    racks: Racks,
    oracle: Oracle,
    *,
    threshold: Threshold,
    proceed: Callable[[], bool] = lambda: True,
    seed: int = 0,
) -> SearchResult:
    """Find the racks whose uplinks carry less than those of the others, in one direction or both.

    Args:
        racks: at least `FEWEST` racks.
        oracle: returns the rates of pairs of hosts, all of a round at the same time.
        threshold: when an uplink counts as slow.
        proceed: see `find_slow`.
        seed: seed of all random choices.
    """
    chooser = random.Random(f"{seed} racks")

    def pairs_of(rack_pair: Pair) -> list[Pair]:
        ends = (chooser.sample(list(racks.hosts[rack]), racks.pairs) for rack in rack_pair)
        return list(zip(*ends, strict=True))

    def of_racks(rounds: Sequence[Round]) -> list[Mapping[Pair, float]]:
        sums = list[Mapping[Pair, float]]()
        for round_ in rounds:
            rates: dict[Pair, float] = {}
            for turn in packed(round_, {}):
                hosts = {rack_pair: pairs_of(rack_pair) for rack_pair in turn}
                answers = oracle([[pair for pairs in hosts.values() for pair in pairs]])[0]
                # A sum without all its parts is too low.
                rates |= {
                    rack_pair: sum(answers[pair] for pair in pairs)
                    for rack_pair, pairs in hosts.items()
                    if all(pair in answers for pair in pairs)
                }
            sums.append(rates)
        return sums

    return find_slow(len(racks.names), of_racks, threshold=threshold, proceed=proceed, seed=seed)
