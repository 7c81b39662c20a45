"""Small clouds for collective operations: unequal hosts, two on one machine; racks behind narrow uplinks; far hosts."""

from __future__ import annotations

from typing import Any

from gavotte.formats.network import FORMAT as NETWORK
from gavotte.formats.network import Network
from gavotte.formats.topology import FORMAT, Topology
from gavotte.terms.goodput import GOODPUT_PER_WIRE

EGRESS_MBIT = (6, 10, 8, 4, 10, 12, 6, 10)
"""Caps of the hosts, each way: so low that a busy machine carries them."""


def unequal() -> Topology:
    """Eight hosts with unequal caps behind one switch; the first two are on one machine."""
    machine = [{"name": "m0", "switch": "core", "machine_rate": "20mbit"}]
    return _topology([{"name": "core"}], machine, lambda i: {"machine": "m0"} if i < 2 else {"switch": "core"}, {})


def racks() -> Topology:
    """The same hosts in two racks whose uplinks carry less than their hosts."""
    switches = [{"name": "core"}, *({"name": f"rack{r}", "parent": "core", "up": "10mbit"} for r in range(2))]
    return _topology(switches, [], lambda i: {"switch": f"rack{i % 2}"}, {})


def far() -> Topology:
    """Hosts with unequal caps, 1 ms away from their switch: a message of 4 kB takes longer to arrive than to leave."""
    return _topology([{"name": "core"}], [], lambda _: {"switch": "core"}, {"latency": "1ms"})


def _topology(
    switches: list[dict[str, Any]], machines: list[dict[str, Any]], at: Any, more: dict[str, Any]
) -> Topology:
    hosts = [
        {"name": f"h{i}", "egress": f"{rate}mbit", "ingress": f"{rate}mbit", "burst": "4kb", "cpus": 4.0} | at(i) | more
        for i, rate in enumerate(EGRESS_MBIT)
    ]
    return Topology.model_validate({"format": FORMAT, "switch": switches, "machine": machines, "host": hosts})


CLOUDS = {"unequal": unequal, "racks": racks, "far": far}


def truth(topology: Topology) -> Network:
    """Return the Network that a faultless measurement of one of these clouds finds."""
    machine = {host.name: host.machine or host.name for host in topology.host}
    cap = {host.name: GOODPUT_PER_WIRE * (host.egress or 0.0) for host in topology.host}
    within = {each.name: GOODPUT_PER_WIRE * (each.machine_rate or 0.0) for each in topology.machine}
    rows: list[list[float | None]] = []
    for source in topology.host:
        row: list[float | None] = []
        for target in topology.host:
            mates = machine[source.name] == machine[target.name]
            row.append(
                None
                if source is target
                else within[machine[source.name]]
                if mates
                else min(cap[source.name], cap[target.name])
            )
        rows.append(row)
    groups = []
    for switch in topology.switch:
        if switch.up:
            members = [host.name for host in topology.host if host.switch == switch.name]
            groups.append(
                {
                    "name": switch.name,
                    "members": members,
                    "up_bps": GOODPUT_PER_WIRE * switch.up,
                    "down_bps": GOODPUT_PER_WIRE * switch.up,
                }
            )
    burst = {host.name: GOODPUT_PER_WIRE * host.burst for host in topology.host}
    hosts = [
        {
            "name": name,
            "machine": machine[name],
            "egress_bps": cap[name],
            "ingress_bps": cap[name],
            "burst_bytes": burst[name],
        }
        for name in cap
    ]
    way_s = [[1e-4 + a.latency + b.latency for b in topology.host] for a in topology.host]
    latency_s = [[None if i == j else s for j, s in enumerate(row)] for i, row in enumerate(way_s)]
    return Network.model_validate(
        {
            "format": NETWORK,
            "hosts": hosts,
            "groups": groups,
            "rate_bps": rows,
            "latency_s": latency_s,
            "sharing": "groups" if groups else "hose",
        }
    )
