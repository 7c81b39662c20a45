"""Measure roughly how fast hosts send and receive over one TCP connection, for hosts without a Network."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median_high

from gavotte.agents import Fleet
from gavotte.agents import agent_pb2 as pb
from gavotte.agents.schedule import Step, carry_out
from gavotte.formats.network import Network
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


def look(fleet: Fleet, hosts: Sequence[str], *, of: Sequence[str] = ()) -> Network:
    """Let each host send to the next for `PROBE_S`, all at once, so that each port carries one connection.

    A hop is as slow as the slower of its two ports. If hops differ, each host then sends to the one before it, and a
    port counts as fast as its faster hop.

    Args:
        fleet: enrolled agents.
        hosts: hosts to probe, at least two.
        of: all hosts of the Network, if not these alone; the others count as the median of these.

    Returns:
        a Network whose hosts have caps where the probes succeeded. The links between them are unknown.
    """
    everywhere = all(STEADY in health.congestion_available for health in fleet.health.values())
    hops = _hops(fleet, hosts, STEADY if everywhere else COMMON)
    if len(hosts) > 2 and hops and min(hops.values()) < LIKE * max(hops.values()):
        hops |= _hops(fleet, hosts[::-1], STEADY if everywhere else COMMON)
    sends: dict[str, float] = {}
    receives: dict[str, float] = {}
    for (source, target), rate_bps in hops.items():
        sends[source] = max(rate_bps, sends.get(source, 0.0))
        receives[target] = max(rate_bps, receives.get(target, 0.0))
    for rates in (sends, receives):
        if rates:
            middle_bps = float(median_high(rates.values()))
            rates.update(dict.fromkeys(set(of or hosts) - set(hosts), middle_bps))
    network = nothing_known(of or hosts)
    caps = [
        host.model_copy(update={"egress_bps": sends.get(host.name), "ingress_bps": receives.get(host.name)})
        for host in network.hosts
    ]
    return network.model_copy(update={"hosts": caps})


def _hops(fleet: Fleet, hosts: Sequence[str], congestion: str) -> dict[tuple[str, str], float]:
    """Return the rate in bit/s from each host to the next, where the probe succeeded."""
    bulk = pb.Bulk(seconds=PROBE_S, flows=1, congestion=congestion, bin_s=PROBE_S / BINS, settled=True)
    ring = list(zip(hosts, [*hosts[1:], hosts[0]], strict=True))
    schedule = [[Step(source, target, pb.Probe(bulk=bulk)) for source, target in ring]]
    rates: dict[tuple[str, str], float] = {}
    answers = list(carry_out(fleet, schedule, round_s=PROBE_S + SETTLING_S + 2.0))
    if congestion == STEADY and any(answer.failure == pb.FAILURE_CONGESTION for answer in answers):
        # The host has BBR, but its user may not use it.
        return _hops(fleet, hosts, COMMON)
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
