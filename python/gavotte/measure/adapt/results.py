"""The answers of a measurement's probes so far, and the History made from them."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.agents import agent_pb2 as pb
from gavotte.formats.history import BY_TCP, PROOF_ARRAYS, VERDICTS, PairHistory
from gavotte.formats.inventory import Inventory
from gavotte.formats.parts.lengths import Lengths
from gavotte.measure.adapt.withheld import Gap, waited_share
from gavotte.measure.plan.methods.method import LOWER_BOUNDS, Reading, refused
from gavotte.terms import Pair
from gavotte.terms.credit import Credit
from gavotte.terms.goodput import goodput_per_wire

FLOATS = ("alpha_s", "beta_Bps", "several_Bps", "sent_bytes", *PROOF_ARRAYS)
CODES = ("verdict", "by_tcp", "connections", "policed", "unqueued", "unqueued_lost")
"""Arrays of a History with a value of each result: numbers that may be NaN, and whole numbers."""


@dataclass(frozen=True)
class Flow:
    """Results of one TCP connection of a bulk probe, from the receiver's count and the sender's kernel.

    Attributes:
        goodput_bps: bytes of the connection, divided by its own time.
        retransmits: number of segments sent again.
        rtt_s: smoothed round trip at the end.
        min_rtt_s: lowest round trip; 0 = unknown.
        cwnd_bytes: congestion window at the end; 0 = unknown.
        delivery_rate_bps: the kernel's newest estimate; 0 = unknown.
        congestion: name of the congestion control.
    """

    goodput_bps: float
    retransmits: int
    rtt_s: float
    min_rtt_s: float
    cwnd_bytes: int
    delivery_rate_bps: float
    congestion: str


def path_result(reading: Reading, reply: pb.ProbeReply, idle_s: float = math.nan, gap: Gap | None = None) -> PathResult:
    """Return a reading with the other results of a reply. `idle_s` and `gap` as in `PathResult`."""
    lost = 0.0 if math.isnan(reading.loss) else reading.loss
    return PathResult(
        replace(reading, sent_bytes=(1 - lost) * reply.bytes_sent),
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
        reply.mtu_bytes,
        reply.gated_train.payload_bytes or reply.burst_train.payload_bytes,
        reply.gated_train.wire_bytes or reply.burst_train.wire_bytes,
        waited_share(reply.sender_withheld),
        waited_share(reply.receiver_withheld),
        gap,
    )


@dataclass(frozen=True)
class PathResult:
    """Results of one probe of a path that agents answered, with or without a rate.

    Attributes:
        reading: the rate, or the reason why there is none.
        rtt_s: median round trip of 1 byte before the probe; 0 = unknown.
        hops: path length (routers + 1); 0 = unknown.
        sender_cpu: busy share of all cores of the sending host during the probe, 0 to 1; NaN = unknown.
        receiver_cpu: the same at the receiving host.
        flows: TCP connections of a bulk probe.
        idle_s: time since the source last sent, and the target last received, another probe; NaN = unknown.
        mtu_bytes: largest IP packet that the path carries in one piece; 0 = unknown.
        payload_bytes: UDP payload of one packet of a train; 0 = no train.
        wire_bytes: the same packet as a shaper counts it.
        sender_waited: share of the probe's time in which the sending agent was ready but had no core; NaN = unknown.
        receiver_waited: the same of the receiving agent.
        gap: why the result shows a host and not the path; None = it shows the path.
    """

    reading: Reading
    rtt_s: float = 0.0
    hops: int = 0
    sender_cpu: float = math.nan
    receiver_cpu: float = math.nan
    flows: tuple[Flow, ...] = ()
    idle_s: float = math.nan
    mtu_bytes: int = 0
    payload_bytes: int = 0
    wire_bytes: int = 0
    sender_waited: float = math.nan
    receiver_waited: float = math.nan
    gap: Gap | None = None

    @property
    def answered(self) -> bool:
        """Whether the probe found a rate."""
        return not self.reading.refusal


def with_credit(path: PathResult, credit: Credit) -> PathResult:
    """Return a path's result with the credit of its source, which had run out before it was measured."""
    bucket_bytes = credit.size_bytes / goodput_per_wire(path.mtu_bytes)
    return replace(path, reading=replace(path.reading, peak_bps=credit.peak_bps, bucket_bytes=bucket_bytes))


@dataclass(frozen=True)
class FailedPath:
    """A path for which one snapshot has no rate, and the reason.

    Attributes:
        snapshot: counted from 0.
        source: host name.
        target: host name.
        reason: why there is no rate, in one line.
        failure: the reason as a word for programs: one of the contract's `Failure` codes, such as `unreachable` or
            `no_rate`.
    """

    snapshot: int
    source: str
    target: str
    reason: str
    failure: str


@dataclass
class Results:
    """All answers of a measurement so far, by snapshot, source index and target index.

    Attributes:
        inventory: the hosts, in matrix order.
        method: name of the method.
        count: number of requested snapshots.
        only: the requested pairs; None = all.
        held_out: those of them that check what the others predict.
        paths: answers; later ones replace earlier ones of the same path.
        times_s: Unix time at which each snapshot began.
        lengths: path lengths counted in advance; None = not counted.
        hidden: whether the lengths are those of labels or round trips, because the network hides its routers.
    """

    inventory: Inventory
    method: str
    count: int
    only: frozenset[Pair] | None = None
    held_out: frozenset[Pair] = frozenset()
    paths: dict[tuple[int, int, int], PathResult] = field(default_factory=dict)
    times_s: dict[int, float] = field(default_factory=dict)
    lengths: Lengths | None = None
    hidden: bool = False

    def add(self, snapshot: int, source: int, target: int, result: PathResult) -> None:
        """Add one answer. A refusal never replaces a rate, and a rate that shows a host only a smaller lower bound."""
        key = (snapshot, source, target)
        known = self.paths.get(key)
        if known is not None and known.answered:
            if not result.answered:
                return
            shows_host = result.gap is not None and result.reading.verdict != "path-limited"
            bound = known.gap is not None or known.reading.verdict in LOWER_BOUNDS
            if shows_host and not (bound and result.reading.goodput_bps > known.reading.goodput_bps):
                return
        self.paths[key] = result

    def answered(self, snapshot: int) -> int:
        """Return the number of paths with a rate in one snapshot."""
        return sum(1 for (number, _, _), path in self.paths.items() if number == snapshot and path.answered)

    def failures(self, snapshot: int, missing: Collection[str]) -> list[FailedPath]:
        """Return paths without a rate in one snapshot, in order, except those of hosts that could not be used."""
        names = self.inventory.names
        here = [i for i, name in enumerate(names) if name not in missing]
        wanted: Iterable[Pair] = permutations(here, 2)
        if self.only is not None:
            wanted = sorted((i, j) for i, j in self.only if names[i] not in missing and names[j] not in missing)
        failures = []
        for i, j in wanted:
            path = self.paths.get((snapshot, i, j), PathResult(refused("no answer", pb.FAILURE_LATE)))
            if not path.answered:
                word = pb.Failure.Name(path.reading.failure).removeprefix("FAILURE_").lower()
                failures.append(FailedPath(snapshot, names[i], names[j], path.reading.refusal, word))
        return failures

    def history(self) -> PairHistory:
        """Return the answers so far, without experiments."""
        lengths = Lengths(len(self.inventory.host)) if self.lengths is None else self.lengths
        pairs = sorted({pair[1:] for pair in self.paths} | self.held_out | _both_ways(lengths.single))
        values = self._values(pairs, lengths)
        ipv6 = np.array([host.ipv6 for host in self.inventory.host])
        return PairHistory(
            hosts=tuple(self.inventory.names),
            time_s=np.array([self.times_s[number] for number in range(self.count)]),
            pairs=np.array(pairs, dtype=np.int64).reshape(len(pairs), 2),
            values=values,
            lengths=Lengths.of_clusters(lengths.size, lengths.clusters),
            cpus=np.array([host.cpus for host in self.inventory.host], dtype=np.float64),
            memory_bytes=np.array([host.memory_bytes for host in self.inventory.host], dtype=np.int64),
            method=self.method,
            ipv6=ipv6 if ipv6.any() else None,
        )

    def _values(self, pairs: Sequence[Pair], lengths: Lengths) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of a `PairHistory`; those that say nothing are left out."""
        place = {pair: number for number, pair in enumerate(pairs)}
        shape = (self.count, len(pairs))
        floats = {key: np.full(shape, np.nan) for key in FLOATS}
        codes = {key: np.zeros(shape, dtype=np.int64) for key in CODES}
        hops = np.array([lengths[pair] for pair in pairs], dtype=np.int64)
        mtu_bytes = np.zeros(len(pairs), dtype=np.int64)
        held_out = np.array([pair in self.held_out for pair in pairs], dtype=np.int64)
        for (snapshot, i, j), path in sorted(self.paths.items()):
            at = snapshot, place[i, j]
            if path.hops and not self.hidden:
                hops[at[1]] = path.hops
            if path.mtu_bytes:
                mtu_bytes[at[1]] = path.mtu_bytes
            for key, value in _measured(path).items():
                (floats if key in floats else codes)[key][at] = value
        values: dict[str, npt.NDArray[Any]] = {"alpha_s": floats["alpha_s"], "beta_Bps": floats["beta_Bps"]}
        values["hops"] = hops
        if (codes["verdict"] > 0).any() or np.isfinite(floats["bucket_bytes"]).any():
            values |= {key: floats[key] for key in PROOF_ARRAYS} | {"verdict": codes["verdict"]}
        for keys, known in (
            (("by_tcp",), codes["by_tcp"].any()),
            (("several_Bps", "connections"), codes["connections"].any()),
            (("policed",), codes["policed"].any()),
            (("unqueued", "unqueued_lost"), codes["unqueued_lost"].any()),
            (("sent_bytes",), np.isfinite(floats["sent_bytes"]).any()),
        ):
            values |= {key: floats[key] if key in floats else codes[key] for key in keys if known}
        values |= {"mtu_bytes": mtu_bytes} if mtu_bytes.any() else {}
        return values | ({"held_out": held_out} if held_out.any() else {})


def _measured(path: PathResult) -> dict[str, float]:
    """Return the values of one result by the names of a History's arrays."""
    reading, values = path.reading, dict[str, float]()
    if math.isfinite(reading.alpha_s):
        values["alpha_s"] = reading.alpha_s
    elif path.rtt_s > 0:
        values["alpha_s"] = path.rtt_s / 2
    if not path.answered:
        return values
    return values | {
        "beta_Bps": reading.goodput_bps / 8,
        "by_tcp": BY_TCP.index(reading.by_tcp),
        "several_Bps": reading.several_bps / 8,
        "connections": reading.connections,
        "policed": reading.policed,
        "unqueued": reading.unqueued,
        "unqueued_lost": reading.unqueued_lost,
        "sent_bytes": reading.sent_bytes,
        "low_Bps": reading.low_bps / 8,
        "high_Bps": _finite(reading.high_bps) / 8,
        "peak_Bps": reading.peak_bps / 8,
        "bucket_bytes": reading.bucket_bytes,
        "loss": reading.loss,
        "idle_s": path.idle_s,
        "verdict": VERDICTS.index(reading.verdict),
    }


def _both_ways(pairs: Iterable[Pair]) -> set[Pair]:
    return {each for pair in pairs for each in (pair, pair[::-1])}


def _finite(value: float) -> float:
    return value if math.isfinite(value) else math.nan
