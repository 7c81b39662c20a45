"""Parts of a Network: hosts, groups behind a shared link, pairs that differ, and what is known about links."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gavotte.formats.files.reading import Emitted
from gavotte.formats.parts.names import Amount, CoreSpeed, HostName, Key, Label

Sharing = Literal["hose", "pipe", "groups"]
"""Which links a transfer loads: see the completion time in the docs."""

NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
MAX_CPUS, MAX_MEMORY_BYTES = 1e6, 1 << 60
"""Most cpus and memory that a host may have."""
RateBps = Annotated[float, Field(ge=1, le=1e18)]
"""A rate. Below 1 bit/s, times computed from a file could overflow; such a path is unknown, which is null."""
MtuBytes = Annotated[int, Field(ge=68, le=65_536)]
Connections = Annotated[float, Field(ge=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=1e9)]
"""A time. Its bounds are far beyond any network, so that no sum or quotient of a file's values overflows."""


class Host(Emitted):
    """One host.

    Attributes:
        name: unique in the network.
        cpus: cores that tasks may use.
        memory_bytes: memory that tasks may use; 0 = unknown, not checked.
        storage_bytes: disk space that tasks may use; 0 = unknown, not checked.
        machine: hosts with the same value share a machine; None = alone on its own.
        egress_bps: cap on all that it sends to other machines.
        ingress_bps: cap on all that it receives from other machines.
        burst_bytes: depth of the token bucket that it sends through, in bytes of TCP payload.
        peak_bps: rate while the bucket lasts; see `gavotte.terms.goodput.transfer_s`.
        labels: free text.
        resources: pieces of counted resources that tasks may use, such as `gpu`.
        core_speed: speed of its cores; tasks count their `cpus` in cores of speed 1.
        price_usd: price of using it at all.
        egress_low_bps: lower end of the interval of `egress_bps`; None = `egress_bps` is exact.
        ingress_low_bps: the same of `ingress_bps`.
        ipv6: whether other hosts send it IPv6 packets, whose headers are 20 bytes larger.
        seen_bytes: bytes that it sent to other machines in one snapshot without its rate falling. `egress_bps` was seen
            for no more than these. None = unknown.
        latency_s: half a round trip to its own rack, in version 2. None = unknown.
    """

    name: HostName
    cpus: Annotated[float, Field(gt=0, le=MAX_CPUS)] = 1.0
    memory_bytes: Annotated[int, Field(ge=0, le=MAX_MEMORY_BYTES)] = 0
    storage_bytes: Annotated[int, Field(ge=0, le=MAX_MEMORY_BYTES)] = 0
    machine: str | None = None
    egress_bps: RateBps | None = None
    ingress_bps: RateBps | None = None
    burst_bytes: Annotated[float, Field(ge=0)] | None = None
    peak_bps: RateBps | None = None
    labels: dict[str, str] = {}
    resources: Annotated[dict[Key, Amount], Field(exclude_if=lambda value: not value)] = {}
    core_speed: Annotated[CoreSpeed, Field(exclude_if=lambda value: value == 1.0)] = 1.0
    price_usd: NotNegative = 0.0
    egress_low_bps: RateBps | None = None
    ingress_low_bps: RateBps | None = None
    ipv6: bool = False
    seen_bytes: NotNegative | None = None
    latency_s: Annotated[Seconds | None, Field(exclude_if=lambda value: value is None)] = None


class Group(Emitted):
    """Hosts behind one shared link, such as a rack's uplink.

    Attributes:
        name: unique among groups.
        members: host names (of this group and of all groups below it).
        up_bps: cap on what leaves the group.
        down_bps: cap on what enters it.
        parent: the group around it.
        latency_s: what it adds to the latency of traffic that leaves it, in version 2. None = unknown.
    """

    name: Label
    members: Annotated[list[HostName], Field(min_length=1)]
    up_bps: RateBps | None = None
    down_bps: RateBps | None = None
    parent: Label | None = None
    latency_s: Annotated[Seconds | None, Field(exclude_if=lambda value: value is None)] = None


class PairException(Emitted):
    """A pair that differs from what its hosts and groups say, in version 2.

    Attributes:
        source: sending host.
        target: receiving host.
        rate_bps: rate of the pair; None = only caps and groups limit.
        latency_s: latency of the pair, one way; None = that of its hosts and groups.
    """

    source: HostName
    target: HostName
    rate_bps: RateBps | None = None
    latency_s: Seconds | None = None


class Checked(Emitted):
    """How well few pairs predicted others, which were held out: at most a share of all is off, with a confidence.

    Attributes:
        pairs: number of held-out pairs.
        off: number of those that are off by more than 5 %.
        share_at_most: largest share of all pairs, 0 to 1, that may be off.
        confidence: chance, 0 to 1, that this holds.
    """

    pairs: Annotated[int, Field(ge=1)]
    off: Annotated[int, Field(ge=0)]
    share_at_most: Share
    confidence: Share


class LinkVerdict(Emitted):
    """What concurrent experiments say about one link. For people: it changes no prediction.

    Attributes:
        link: `out of HOST`, `into GROUP`; several if no experiment could distinguish them.
        verdict: what limits there. `hose` is a host's cap, `machine` a machine's NIC, `tor` a rack's link and
            `aggregate` a link above racks. `open` is a link that stayed unfilled in an experiment made to fill it.
            Anything else is `unknown`.
        rate_bps: the limit.
        at_least_bps: highest rate that was seen to cross it.
        evidence: the experiments, or why nothing is known.
    """

    link: str
    verdict: Literal["hose", "machine", "tor", "aggregate", "open", "unknown"]
    rate_bps: RateBps | None = None
    at_least_bps: RateBps | None = None
    evidence: str = ""
