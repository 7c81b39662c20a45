"""Plan the impairments of a lab's links, which delay, lose and police packets. Pure numbers, no kernel.

The kernel's own means for this, netem and police, are missing on many machines. A `Wire` therefore goes through the
lab's *element*, a process of ours between two veth ends (`gavotte-agent impair`, crates/impair).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gavotte.lab.shapers import queue_for

if TYPE_CHECKING:  # the keeper imports this module and must start fast
    from gavotte.formats.topology import Host, Switch

DEEP_S = 0.5
"""The element enforces a cap whose bucket holds more than this much time at its rate.

HTB lets a class with tokens exceed its parent. A deep bucket would let a host exceed its NIC's rate as long as the
tokens last. HTB also refills at most 60 s at a time, and cannot express more than 274 s.
"""

SUPER_PACKET_BYTES = 16 * 1024
"""Largest packet that hosts hand down whole in a lab with an element, which holds each in one slot of its ring."""

LARGEST_MTU_BYTES = 65535
"""MTU of the element's interfaces: those on the other side decide which packets fit."""


@dataclass(frozen=True)
class Bucket:
    """A token bucket.

    Attributes:
        rate_bps: wire bit/s.
        burst_bytes: depth.
        queue_bytes: most bytes that wait for tokens, 0 = a policer.
    """

    rate_bps: float
    burst_bytes: int
    queue_bytes: int


@dataclass(frozen=True)
class Lane:
    """Impairment of some or all packets in one direction.

    Attributes:
        latency_s: delay of each.
        jitter_s: largest random addition to it.
        loss: share that is lost.
        bucket: what limits them, None = nothing.
        field: `source` or `target`, the Ethernet address that selects packets; empty for all.
        address: its value, as `02:00:0a:01:00:02`.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    bucket: Bucket | None = None
    field: str = ""
    address: str = ""

    @property
    def idle(self) -> bool:
        """Whether it changes nothing."""
        return not (self.latency_s or self.jitter_s or self.loss or self.bucket)

    @property
    def drops(self) -> bool:
        """Whether it may drop packets, which must then have the size that a network gives them."""
        return self.loss > 0 or self.bucket is not None


@dataclass(frozen=True)
class Wire:
    """Two interfaces of the element. Packets that one receives leave by the other.

    Attributes:
        ends: numbers of the interfaces: the one towards the root, and the one towards the hosts.
        down: what happens to packets from the first end to the second.
        up: what happens to packets from the second end to the first.
    """

    ends: tuple[int, int]
    down: tuple[Lane, ...]
    up: tuple[Lane, ...]


def link_lane(switch: Switch) -> Lane:
    """Return what the link between a switch and its parent does, each way."""
    return Lane(switch.latency, switch.jitter, switch.loss)


def host_lane(host: Host, cap_bps: float | None) -> Lane:
    """Return what happens to a host's packets one way, on the link between its machine and the switch.

    Args:
        host: the host.
        cap_bps: its cap in that direction.
    """
    bucket = None
    if cap_bps is not None and enforced_by_element(host, cap_bps):
        queue_bytes = 0 if host.policer else queue_for(cap_bps, host.queue)
        bucket = Bucket(cap_bps, host.burst, queue_bytes)
    return Lane(host.latency, host.jitter, host.loss, bucket)


def enforced_by_element(host: Host, cap_bps: float) -> bool:
    """Whether the element enforces a host's cap, and not HTB."""
    return host.policer or 8 * host.burst > DEEP_S * cap_bps


def plan(wires: tuple[Wire, ...], seed: int) -> dict[str, Any]:
    """Return the element's plan, to be sent as JSON.

    Args:
        wires: the lab's wires.
        seed: decides losses and jitter.
    """
    # A link's seed has 64 bits.
    first = (seed % (1 << 32)) << 32
    seeds = iter(range(first, first + (1 << 32), 2))
    return {
        "wires": [
            {
                "ends": list(wire.ends),
                "ways": [[_lane_plan(lane, next(seeds)) for lane in way] for way in (wire.down, wire.up)],
            }
            for wire in wires
        ],
        "largest_bytes": SUPER_PACKET_BYTES,
    }


def _lane_plan(lane: Lane, seed: int) -> dict[str, Any]:
    bucket = lane.bucket
    return {
        "address": {lane.field: list(bytes.fromhex(lane.address.replace(":", "")))} if lane.field else None,
        "latency_s": lane.latency_s,
        "jitter_s": lane.jitter_s,
        "loss": lane.loss,
        "bucket": None if bucket is None else vars(bucket),
        "seed": seed,
    }
