"""Measure roughly how fast hosts send over one TCP connection, and who shares a rack, for hosts without a Network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from statistics import median_high

import numpy as np

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.routers import count_routers
from gavotte.agents.schedule import Step, carry_out
from gavotte.formats.network import Group, Network
from gavotte.transfer.planning import nothing_known

PROBE_S = 0.5
"""Time for which each host sends. A shaper's bucket of 32 kB is less than 1 % of what 50 Mbit/s carry in that time."""

SETTLING_S = 5.0
"""Longest time that agents send on far paths before the counted seconds begin."""

BINS = 50
STEADY, COMMON = "bbr", "cubic"
"""Congestion control of the probes, and the one for hosts that do not have or allow it.

CUBIC, after one loss at a round trip of 80 ms, showed 25 to 38 Mbit/s of a path of 38, and once 4. BBR shows 38.
"""

START = 0.4
"""Share at the start that is ignored: slow start, and a full bucket."""

STRETCH = 5
"""Bins over which a rate is computed. The median of all such stretches is the port's rate."""

GLANCED = 48
"""Most hosts between which path lengths are counted: each host needs a round for each other one."""

MACHINE_HOPS = 1
"""Path length between hosts of one machine, where other paths are longer."""

Rates = dict[tuple[str, str], float]


@dataclass(frozen=True)
class Places:
    """Where hosts are, as far as path lengths show.

    Attributes:
        machines: number of the machine of each host.
        racks: number of the rack of each host.
    """

    machines: dict[str, int]
    racks: dict[str, int]

    def in_rack(self, rack: int) -> list[str]:
        """Return the hosts of a rack, so that neighbours in the list share a machine only if they must."""
        by_machine: dict[int, list[str]] = {}
        for host, own in self.racks.items():
            if own == rack:
                by_machine.setdefault(self.machines[host], []).append(host)
        turns = zip_longest(*sorted(by_machine.values(), key=len, reverse=True))
        return [host for turn in turns for host in turn if host is not None]

    @property
    def rack_numbers(self) -> list[int]:
        """All racks."""
        return sorted(set(self.racks.values()))


def look(fleet: Fleet, hosts: Sequence[str], *, of: Sequence[str] = ()) -> Network:
    """Probe the port of each host for `PROBE_S`.

    1. Path lengths show which hosts share a machine and which a rack.
    2. Each host sends to the next of its rack, all at once, never to one on the same machine.

    A broadcast learns meanwhile how fast ports and lines are (`gavotte.transfer.adapting`). More probes would take
    longer than they save.

    Args:
        fleet: enrolled agents.
        hosts: hosts to probe, at least two.
        of: all hosts of the Network, if not these alone; the others count as the median of these.

    Returns:
        a Network whose hosts and racks have caps where the probes succeeded.
    """
    everywhere = all(STEADY in health.congestion_available for health in fleet.health.values())
    places = _places(fleet, hosts)
    hops = _hops(fleet, _rings(places), STEADY if everywhere else COMMON)
    return as_network(of or hosts, places, [hops])


def as_network(names: Sequence[str], places: Places, hops: Sequence[Rates]) -> Network:
    """Return the Network that places and hops show.

    1. A port counts as its faster hop: a hop is as slow as the slower of its ports.
    2. The ports of a machine's hosts are one. It counts as what they carried together.
    3. The line of a rack counts as its fastest port. How fast it is shows when blocks cross it.

    Args:
        names: all hosts.
        places: where the probed hosts are.
        hops: rates of hops that were probed at the same time.
    """
    sends: dict[str, float] = {}
    receives: dict[str, float] = {}
    for rates in hops:
        # Hosts of one machine share its port.
        out: dict[int, float] = {}
        into: dict[int, float] = {}
        for (source, target), rate in rates.items():
            out[places.machines[source]] = out.get(places.machines[source], 0.0) + rate
            into[places.machines[target]] = into.get(places.machines[target], 0.0) + rate
        for host, machine in places.machines.items():
            if machine in out:
                sends[host] = max(out[machine], sends.get(host, 0.0))
            if machine in into:
                receives[host] = max(into[machine], receives.get(host, 0.0))
    for caps in (sends, receives):
        if caps:
            middle_bps = float(median_high(caps.values()))
            caps.update(dict.fromkeys(set(names) - caps.keys(), middle_bps))
    shared = Counter(places.machines.values())
    hosts = [
        host.model_copy(
            update={
                "egress_bps": sends.get(host.name),
                "ingress_bps": receives.get(host.name),
                "machine": f"machine{places.machines[host.name]}"
                if shared[places.machines.get(host.name, -1)] > 1
                else None,
            }
        )
        for host in nothing_known(names).hosts
    ]
    several = len(places.rack_numbers) > 1
    groups = []
    for rack in places.rack_numbers if several else ():
        members = places.in_rack(rack)
        lines = [max((caps[host] for host in members if host in caps), default=None) for caps in (sends, receives)]
        groups.append(Group(name=f"rack{rack}", members=members, up_bps=lines[0], down_bps=lines[1]))
    for machine in sorted(machine for machine, count in shared.items() if count > 1):
        members = [host for host, own in places.machines.items() if own == machine]
        first = members[0]
        parent = f"rack{places.racks[first]}" if several else None
        groups.append(
            Group(
                name=f"machine{machine}",
                members=members,
                up_bps=sends.get(first),
                down_bps=receives.get(first),
                parent=parent,
            )
        )
    sharing: dict[str, object] = {"groups": groups, "sharing": "groups"} if groups else {}
    return nothing_known(names).model_copy(update={"hosts": hosts, **sharing})


def _places(fleet: Fleet, hosts: Sequence[str]) -> Places:
    """Return where hosts are. Without path lengths, each is on a machine of its own, and all are in one rack."""
    size = len(hosts)
    lengths: dict[tuple[int, int], int] = {}
    if 2 < size <= GLANCED:
        routers = count_routers(lambda schedule, round_s: carry_out(fleet, schedule, round_s=round_s), hosts, hosts)
        hops = routers.lengths.matrix()
        lengths = {(int(m), int(n)): int(hops[m, n]) for m, n in np.argwhere(hops)}
    kinds = sorted(set(lengths.values()))
    if len(kinds) < 2:
        return Places({host: number for number, host in enumerate(hosts)}, dict.fromkeys(hosts, 0))
    rack_hops = next(length for length in kinds if length > MACHINE_HOPS)
    machines = _joined(size, [pair for pair, length in lengths.items() if length <= MACHINE_HOPS])
    racks = _joined(size, [pair for pair, length in lengths.items() if length <= rack_hops])
    # A host of which nothing is known may be anywhere: it counts as one of the first rack.
    seen = {host for pair in lengths for host in pair}
    return Places(
        dict(zip(hosts, machines, strict=True)),
        {name: racks[number] if number in seen else racks[0] for number, name in enumerate(hosts)},
    )


def _joined(size: int, pairs: Iterable[tuple[int, int]]) -> list[int]:
    """Return the least number that each number is connected with, itself included."""
    least = list(range(size))
    for m, n in pairs:
        one, other = least[m], least[n]
        if one != other:
            least = [min(one, other) if number in (one, other) else number for number in least]
    return least


def _rings(places: Places) -> list[tuple[str, str]]:
    """Return each host with the next one of its rack on another machine, or of all racks if its own has none."""
    pairs = [pair for rack in places.rack_numbers for pair in _ring(places, places.in_rack(rack))]
    paired = {source for source, _ in pairs}
    lonely = [host for host in places.racks if host not in paired]
    if len({places.machines[host] for host in lonely}) < 2:
        lonely += [host for host in places.racks if host in paired][:1]
    return pairs + [pair for pair in _ring(places, lonely) if pair[0] not in paired]


def _ring(places: Places, hosts: Sequence[str]) -> list[tuple[str, str]]:
    """Return each of these hosts with the next one on another machine."""
    pairs = []
    for at, host in enumerate(hosts):
        others = [*hosts[at + 1 :], *hosts[:at]]
        other = next((other for other in others if places.machines[other] != places.machines[host]), None)
        pairs += [(host, other)] if other is not None else []
    return pairs


def _hops(fleet: Fleet, pairs: Sequence[tuple[str, str]], congestion: str) -> Rates:
    """Return the rate in bit/s of each pair while all send at once, where the probe succeeded."""
    bulk = pb.Bulk(seconds=PROBE_S, flows=1, congestion=congestion, bin_s=PROBE_S / BINS, settled=True)
    schedule = [[Step(source, target, pb.Probe(bulk=bulk)) for source, target in pairs]]
    rates: Rates = {}
    if not pairs:
        return rates
    answers = list(carry_out(fleet, schedule, round_s=PROBE_S + SETTLING_S + 2.0))
    if congestion == STEADY and any(answer.failure == pb.FAILURE_CONGESTION for answer in answers):
        # The host has BBR, but its user may not use it.
        return _hops(fleet, pairs, COMMON)
    for answer in answers:
        if answer.reply is None or answer.error:
            continue
        bins = [count for flow in answer.reply.bulk.flows for count in flow.bin_bytes]
        steady = bins[int(len(bins) * START) : -1]
        if any(steady):
            # A stretch in which this machine was busy with other work does not show the port's rate.
            stretches = [sum(steady[at : at + STRETCH]) for at in range(max(1, len(steady) - STRETCH + 1))]
            rate_bps = 8 * float(median_high(stretches)) / (min(STRETCH, len(steady)) * bulk.bin_s)
            if rate_bps > 0:
                rates[answer.source, answer.target] = rate_bps
    return rates
