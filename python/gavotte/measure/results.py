"""What the probes of a measurement have answered so far, and the History they make."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import VERDICTS, History, Ints, Proof
from gavotte.formats.inventory import Inventory
from gavotte.measure.methods import Reading, refused
from gavotte.terms import Pair


@dataclass(frozen=True)
class Flow:
    """One TCP connection of a bulk probe, as the receiver counted it and the sender's kernel saw it.

    Attributes:
        goodput_bps: over its own time.
        retransmits: segments sent again.
        rtt_s: smoothed round trip at the end.
        min_rtt_s: lowest round trip; 0 = unknown.
        cwnd_bytes: congestion window at the end; 0 = unknown.
        delivery_rate_bps: the kernel's newest estimate; 0 = unknown.
        congestion: congestion control.
    """

    goodput_bps: float
    retransmits: int
    rtt_s: float
    min_rtt_s: float
    cwnd_bytes: int
    delivery_rate_bps: float
    congestion: str


def path_result(reading: Reading, reply: pb.ProbeReply, idle_s: float = math.nan) -> PathResult:
    """What a reply tells beside its reading. `idle_s` as in `PathResult`."""
    return PathResult(
        reading,
        reply.rtt_s,
        reply.hops,
        reply.sender_cpu if reply.HasField("sender_cpu") else math.nan,
        reply.receiver_cpu if reply.HasField("receiver_cpu") else math.nan,
        tuple(
            Flow(
                8 * flow.bytes / flow.seconds if flow.seconds > 0 else math.nan,
                flow.retransmits,
                flow.rtt_s,
                flow.min_rtt_s,
                flow.cwnd_bytes,
                flow.delivery_rate_bps,
                flow.congestion,
            )
            for flow in reply.bulk.flows
        ),
        idle_s,
    )


@dataclass(frozen=True)
class PathResult:
    """One answered probe.

    Attributes:
        reading: what it says.
        rtt_s: median round trip of 1 byte before it; 0 = unknown.
        hops: path length (routers + 1); 0 = unknown.
        sender_cpu: busy share of all cores of the sending host meanwhile, 0 to 1; NaN = unknown.
        receiver_cpu: the same at the receiving host.
        flows: TCP connections of a bulk probe.
        idle_s: time since the source last sent, and the target last received, another probe; NaN = unknown.
    """

    reading: Reading
    rtt_s: float = 0.0
    hops: int = 0
    sender_cpu: float = math.nan
    receiver_cpu: float = math.nan
    flows: tuple[Flow, ...] = ()
    idle_s: float = math.nan

    @property
    def answered(self) -> bool:
        """Whether there is a rate."""
        return not self.reading.refusal


@dataclass(frozen=True)
class FailedPath:
    """A path without an answer in one snapshot.

    Attributes:
        snapshot: counted from 0.
        source: host name.
        target: host name.
        reason: why, in one line.
        failure: the same as a word to decide by: one of the contract's `Failure` codes, as `unreachable` or `no_rate`.
    """

    snapshot: int
    source: str
    target: str
    reason: str
    failure: str


@dataclass
class Results:
    """All answers by snapshot, source and target index.

    Attributes:
        inventory: the hosts, in matrix order.
        method: name of the method.
        count: snapshots asked for.
        only: the pairs asked for; None = all.
        paths: answers; later ones replace earlier ones of the same path.
        times_s: Unix time at which each snapshot began.
        lengths: (N, N) path lengths found beforehand, 0 = unknown; None = nobody looked.
    """

    inventory: Inventory
    method: str
    count: int
    only: frozenset[Pair] | None = None
    paths: dict[tuple[int, int, int], PathResult] = field(default_factory=dict)
    times_s: dict[int, float] = field(default_factory=dict)
    lengths: Ints | None = None

    def add(self, snapshot: int, source: int, target: int, result: PathResult) -> None:
        """Takes one answer. A refusal never replaces a rate."""
        key = (snapshot, source, target)
        if result.answered or key not in self.paths or not self.paths[key].answered:
            self.paths[key] = result

    def answered(self, snapshot: int) -> int:
        """Paths with a rate in one snapshot."""
        return sum(1 for (number, _, _), path in self.paths.items() if number == snapshot and path.answered)

    def failures(self, snapshot: int, missing: Collection[str]) -> list[FailedPath]:
        """Paths without a rate in one snapshot, in order, without those of hosts that could not be used at all."""
        names = self.inventory.names
        here = [i for i, name in enumerate(names) if name not in missing]
        found = []
        for i, j in ((i, j) for i in here for j in here if i != j and (self.only is None or (i, j) in self.only)):
            path = self.paths.get((snapshot, i, j), PathResult(refused("no answer", pb.FAILURE_LATE)))
            if not path.answered:
                word = pb.Failure.Name(path.reading.failure).removeprefix("FAILURE_").lower()
                found.append(FailedPath(snapshot, names[i], names[j], path.reading.refusal, word))
        return found

    def history(self) -> History:
        """The answers as matrices."""
        size = len(self.inventory.host)
        shape = (self.count, size, size)
        alpha, beta = np.full(shape, np.nan), np.full(shape, np.nan)
        hops = np.zeros((size, size), dtype=np.int64) if self.lengths is None else self.lengths.copy()
        proof = Proof.empty(shape)
        proven = False
        for (snapshot, i, j), path in sorted(self.paths.items()):
            at = (snapshot, i, j)
            if math.isfinite(path.reading.alpha_s):
                alpha[at] = path.reading.alpha_s
            elif path.rtt_s > 0:
                alpha[at] = path.rtt_s / 2
            if path.hops:
                hops[i, j] = path.hops
            reading = path.reading
            if not path.answered:
                continue
            beta[at] = reading.goodput_bps / 8
            proof.low_Bps[at], proof.high_Bps[at] = reading.low_bps / 8, _finite(reading.high_bps) / 8
            proof.peak_Bps[at] = reading.peak_bps / 8
            proof.bucket_bytes[at], proof.loss[at] = reading.bucket_bytes, reading.loss
            proof.idle_s[at] = path.idle_s
            proof.verdict[at] = VERDICTS.index(reading.verdict)
            proven = proven or reading.verdict != "unproven"
        return History(
            alpha_s=alpha,
            beta_Bps=beta,
            time_s=np.array([self.times_s[number] for number in range(self.count)]),
            hosts=tuple(self.inventory.names),
            hops=hops,
            cpus=np.array([host.cpus for host in self.inventory.host], dtype=np.float64),
            memory_bytes=np.array([host.memory_bytes for host in self.inventory.host], dtype=np.int64),
            method=self.method,
            proof=proof if proven else None,
        )


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan
