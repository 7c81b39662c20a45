"""What a campaign asks of an engine, and what an engine measures: the same for agents, iperf3 and nuttcp."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gavotte.formats.campaign import Background

BINS = 20
"""Number of equal parts of a sample's time whose rates show how the rate varied within the sample."""
BACKGROUND_SPARE_S = 1.0
"""Seconds by which background traffic outlasts a sample."""
LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class Job:
    """One sample to take, in the terms of an engine.

    Attributes:
        pairs: (source, target) of all pairs that send at once.
        connections: number of connections of each pair.
        seconds: duration of sending.
        congestion: TCP congestion control.
        copy: whether agents copy received data, as other programs do, or have the kernel drop it.
        background: other traffic during the sample.
        addresses: host to the address at which other hosts reach it, if that differs from the inventory.
        rate_bps: UDP payload that each pair offers, bit/s; None = TCP, which sends as fast as it can.
        mtu_bytes: largest IP packets to send; 0 = what the path carries.
        program_each: whether iperf3 or nuttcp runs once for each connection.
    """

    pairs: Sequence[tuple[str, str]]
    connections: int
    seconds: float
    congestion: str
    copy: bool
    background: Sequence[Background] = ()
    addresses: Mapping[str, str] = field(default_factory=dict)
    rate_bps: float | None = None
    mtu_bytes: int = 0
    program_each: bool = False

    @property
    def hosts(self) -> list[str]:
        """Names of all hosts that send or receive, background traffic included; each once."""
        beside = [end for each in self.background for end in (each.source, each.target)]
        return list(dict.fromkeys([*(end for pair in self.pairs for end in pair), *beside]))


@dataclass(frozen=True)
class Packets:
    """What became of the UDP packets of one pair; None = the engine does not report it.

    Attributes:
        sent: number of packets.
        lost: number of packets that did not arrive.
        late: number of packets that arrived after one that was sent later.
        jitter_s: smoothed change of the transit time from packet to packet (RFC 3550).
        least_delay_s: shortest one-way delay, by the clocks of both hosts.
        median_delay_s: median of the one-way delays.
        high_delay_s: 95th percentile.
        most_delay_s: longest one-way delay.
        clock_ahead_s: by how much the receiver's clock is ahead of the sender's; the delays are too long by as much.
        clock_error_s: error of that difference.
    """

    sent: int
    lost: int
    late: int | None = None
    jitter_s: float | None = None
    least_delay_s: float | None = None
    median_delay_s: float | None = None
    high_delay_s: float | None = None
    most_delay_s: float | None = None
    clock_ahead_s: float | None = None
    clock_error_s: float | None = None


@dataclass
class Sent:
    """What an engine measured in one sample.

    Attributes:
        capacity_bps: goodput of all pairs together, bit/s.
        connection_bps: goodput of each connection, bit/s; empty if the engine reports none.
        bins_bps: goodput of all pairs together in each bin of time, bit/s; gives the confidence interval. Empty if the
            engine reports none. The first bin, in which connections start, and the last one are left out.
        bin_s: width of a bin.
        retransmits: TCP segments sent again; None = unknown.
        rtt_loaded_s: mean of the connections' smoothed RTT under load; None = unknown.
        rtt_idle_s: RTT before the load; None = unknown.
        sender_cpu: largest busy share of a sender's cores, 0 to 1; from iperf3 and nuttcp, cores used by their
            processes; None = unknown.
        receiver_cpu: the same for the receivers.
        sender_throttled: largest share of the time in which a quota throttled a sending agent, 0 to 1; None = unknown.
        receiver_throttled: the same for the receiving agents.
        congestion: the congestion control of the sending sockets; empty = unknown.
        beside: other runs that moved bytes at the same time.
        pair_bps: goodput of each pair, bit/s, in the order of the job's pairs; empty = unknown.
        packets: what became of each pair's UDP packets, in the same order; empty for TCP.
        segment_bytes: largest TCP payload of one packet; None = unknown.
        connection_cpu: cores that each connection's sender and receiver used, where a program runs for each.
    """

    capacity_bps: float
    connection_bps: list[float]
    bins_bps: list[float] = field(default_factory=list)
    bin_s: float = 0.0
    retransmits: int | None = None
    rtt_loaded_s: float | None = None
    rtt_idle_s: float | None = None
    sender_cpu: float | None = None
    receiver_cpu: float | None = None
    sender_throttled: float | None = None
    receiver_throttled: float | None = None
    congestion: str = ""
    beside: list[str] = field(default_factory=list)
    pair_bps: list[float] = field(default_factory=list)
    packets: list[Packets] = field(default_factory=list)
    segment_bytes: int | None = None
    connection_cpu: list[tuple[float | None, float | None]] = field(default_factory=list)


def jain(values: Sequence[float]) -> float | None:
    """Return Jain's fairness index of rates, 1/n to 1; None = no rate is above 0 (Jain, Chiu, Hawe: cs.NI/9809099)."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares else None


def one_of(values: Iterable[str]) -> str:
    """Return the distinct non-empty values, sorted and joined by commas; one value if all agree."""
    return ",".join(sorted(set(values) - {""}))
