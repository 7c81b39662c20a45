"""Measure roughly how fast hosts send and receive over one TCP connection, for hosts without a Network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
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


LIKE = 0.9
"""Hops at least this much of the fastest are alike: no port was measured through a slower one."""

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
    """Probe the port of each host, and the line of each rack, for `PROBE_S` each.

    1. Path lengths show which hosts share a machine and which a rack.
    2. Each host sends to the next of its rack, all at once, never to one on the same machine. If hops differ, each then
       sends to the one before it. A hop is as slow as the slower of its ports, so a port counts as its faster hop.
    3. The fastest host of each rack sends to the next rack, then to the one before it. If no line slows it down, all
       hosts send together. A line counts as the larger rate.

    Args:
        fleet: enrolled agents.
        hosts: hosts to probe, at least two.
        of: all hosts of the Network, if not these alone; the others count as the median of these.

    Returns:
        a Network whose hosts and racks have caps where the probes succeeded.
    """
    everywhere = all(STEADY in health.congestion_available for health in fleet.health.values())
    congestion = STEADY if everywhere else COMMON
    places = _places(fleet, hosts)
    racks = places.rack_numbers
    hops = [_hops(fleet, [pair for rack in racks for pair in _ring(places, rack)], congestion)]
    if hops[0] and min(hops[0].values()) < LIKE * max(hops[0].values()):
        # In a rack of two, each host has sent to the other already.
        racks = [rack for rack in racks if len(places.in_rack(rack)) > 2]
        hops.append(_hops(fleet, [pair for rack in racks for pair in _ring(places, rack, back=True)], congestion))
    sends: dict[str, float] = {}
    receives: dict[str, float] = {}
    for (source, target), rate in (hop for rates in hops for hop in rates.items()):
        sends[source] = max(rate, sends.get(source, 0.0))
        receives[target] = max(rate, receives.get(target, 0.0))
    if len(hops) > 1:
        # A port that only one hop has shown may be faster than the other end of that hop.
        for caps, end in ((sends, 0), (receives, 1)):
            shown = Counter(pair[end] for rates in hops for pair in rates)
            middle_bps = float(median_high(caps.values()))
            once = {host for rack in racks for host in places.in_rack(rack) if shown[host] == 1}
            caps.update({host: max(caps[host], middle_bps) for host in once})
    ups, downs = _lines(fleet, places, congestion, sends, receives)
    for caps in (sends, receives):
        if caps:
            middle_bps = float(median_high(caps.values()))
            caps.update(dict.fromkeys(set(of or hosts) - set(hosts), middle_bps))
    network = nothing_known(of or hosts)
    shared = Counter(places.machines.values())
    known = [
        host.model_copy(
            update={
                "egress_bps": sends.get(host.name),
                "ingress_bps": receives.get(host.name),
                "machine": f"machine{places.machines[host.name]}"
                if host.name in places.machines and shared[places.machines[host.name]] > 1
                else None,
            }
        )
        for host in network.hosts
    ]
    groups = [
        Group(name=f"rack{rack}", members=places.in_rack(rack), up_bps=ups.get(rack), down_bps=downs.get(rack))
        for rack in places.rack_numbers
    ]
    sharing: dict[str, object] = {"groups": groups, "sharing": "groups"} if len(groups) > 1 else {}
    return network.model_copy(update={"hosts": known, **sharing})


def _places(fleet: Fleet, hosts: Sequence[str]) -> Places:
    """Return where hosts are. Without path lengths, each is on a machine of its own, and all are in one rack."""
    size = len(hosts)
    lengths: dict[tuple[int, int], int] = {}
    if 2 < size <= GLANCED:
        routers = count_routers(lambda schedule, round_s: carry_out(fleet, schedule, round_s=round_s), hosts, hosts)
        lengths = {(int(m), int(n)): int(routers.lengths[m, n]) for m, n in np.argwhere(routers.lengths)}
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


def _ring(places: Places, rack: int, *, back: bool = False) -> list[tuple[str, str]]:
    """Return each host of a rack with the next one on another machine, or with the one before it."""
    hosts = places.in_rack(rack)[:: -1 if back else 1]
    pairs = []
    for at, host in enumerate(hosts):
        others = (other for other in hosts[at + 1 :] + hosts[:at] if places.machines[other] != places.machines[host])
        pairs += [(host, other) for other in islice(others, 1)]
    return pairs


def _lines(
    fleet: Fleet, places: Places, congestion: str, sends: dict[str, float], receives: dict[str, float]
) -> tuple[dict[int, float], dict[int, float]]:
    """Return the rates out of and into each rack. Raise the ports' rates to those shown here.

    Connections that share a line do not begin at the same moment, so the sum of their rates is too high on a busy
    machine. One connection therefore comes first. If it is slower than the ports of its hosts, it shows the line.
    """
    racks = {rack: places.in_rack(rack) for rack in places.rack_numbers}
    numbers = list(racks)
    ups: dict[int, float] = {}
    downs: dict[int, float] = {}
    for shift in (1, -1) if len(racks) > 2 else range(1, len(racks)):
        following = {rack: numbers[(at + shift) % len(numbers)] for at, rack in enumerate(numbers)}
        best = {
            (
                max(racks[m], key=lambda host: sends.get(host, 0.0)),
                max(racks[n], key=lambda host: receives.get(host, 0)),
            )
            for m, n in following.items()
        }
        lines = {
            (places.racks[m], places.racks[n]): rate for (m, n), rate in _hops(fleet, sorted(best), congestion).items()
        }
        for m, n in sorted(best):
            between = (places.racks[m], places.racks[n])
            ports = min(sends.get(m, 0.0), receives.get(n, 0.0))
            if lines.get(between, 0.0) < LIKE * ports:
                following.pop(between[0], None)
        pairs = [
            (racks[m][at % len(racks[m])], racks[n][at % len(racks[n])])
            for m, n in following.items()
            for at in range(max(len(racks[m]), len(racks[n])))
        ]
        sums: dict[tuple[int, int], float] = {}
        for (source, target), rate in _hops(fleet, pairs, congestion).items():
            between = (places.racks[source], places.racks[target])
            sums[between] = sums.get(between, 0.0) + rate
            sends[source] = max(rate, sends.get(source, 0.0))
            receives[target] = max(rate, receives.get(target, 0.0))
        for between in lines.keys() | sums.keys():
            rate = max(lines.get(between, 0.0), sums.get(between, 0.0))
            ups[between[0]] = max(rate, ups.get(between[0], 0.0))
            downs[between[1]] = max(rate, downs.get(between[1], 0.0))
    return ups, downs


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
