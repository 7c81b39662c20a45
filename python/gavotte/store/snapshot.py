"""Snapshots: the measurements of a series at one time, between the hosts that it had at that time.

Split a History into snapshots, and combine snapshots to a History.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import (
    BY_TCP,
    MAX_BPS_BYTES,
    MAX_HOPS,
    MOST_CONNECTIONS,
    MOST_MTU_BYTES,
    MOST_PACKETS,
    MOST_SENT_BYTES,
    PROOF_ARRAYS,
    VERDICTS,
    Floats,
    History,
    Ints,
    Proof,
    Texts,
)
from gavotte.formats.network import MAX_CPUS, MAX_MEMORY_BYTES
from gavotte.formats.parts.evidence import Evidence
from gavotte.store.errors import StoreError

MAX_HOSTS = 4096
"""Largest number of hosts in a snapshot, equal to that of an Inventory."""


@dataclass(frozen=True)
class Extra:
    """Description of an optional array of a History.

    Attributes:
        unknown: value that means unknown.
        most: largest valid value.
        stored: numpy's name of the stored type.
        each: True if the array has values for each snapshot, False if it has one value per pair for all snapshots.
    """

    unknown: float
    most: float
    stored: str
    each: bool = True


EXTRA = {
    "mtu_bytes": Extra(0, MOST_MTU_BYTES, "<i4", each=False),
    "by_tcp": Extra(0, len(BY_TCP) - 1, "<i4"),
    "several_Bps": Extra(np.nan, MAX_BPS_BYTES, "<f8"),
    "connections": Extra(0, MOST_CONNECTIONS, "<i4"),
    "policed": Extra(0, 1, "<i4"),
    "unqueued": Extra(0, MOST_PACKETS, "<i4"),
    "unqueued_lost": Extra(0, MOST_PACKETS, "<i4"),
    "sent_bytes": Extra(np.nan, MOST_SENT_BYTES, "<f8"),
    "held_out": Extra(0, 1, "<i4", each=False),
}


@dataclass(frozen=True)
class Snapshot:
    """Measurements of all paths between the hosts of a series at one time. Row = source; NaN = not measured.

    Attributes:
        time_s: Unix time at the snapshot's start, unique in a series.
        hosts: names of the N hosts.
        alpha_s: (N, N) one-way latency in seconds.
        beta_Bps: (N, N) bulk TCP goodput in bytes/s.
        hops: (N, N) path length as traceroute counts it, 0 = unknown.
        cpus: (N,) cores of each host.
        memory_bytes: (N,) memory of each host, 0 = unknown.
        method: name of the method of measurement.
        proof: how far each value can be trusted, as arrays (N, N); None if the method does not report it.
        extra: those arrays of `EXTRA` that the History has, (N, N) each, as the History describes them.
        ipv6: (N,) whether other hosts send each host IPv6 packets; None = no host receives IPv6.
        hop_addresses: (N, N, H) address of each router on the path; None = not traced.
        evidence: experiments of the same History. A History's experiments are stored with its last snapshot.
    """

    time_s: float
    hosts: tuple[str, ...]
    alpha_s: Floats
    beta_Bps: Floats  # noqa: N815 - the word of the History, unit included
    hops: Ints
    cpus: Floats
    memory_bytes: Ints
    method: str = ""
    proof: Proof | None = None
    extra: Mapping[str, npt.NDArray[Any]] = field(default_factory=dict)
    ipv6: npt.NDArray[np.bool_] | None = None
    hop_addresses: Texts | None = None
    evidence: tuple[Evidence, ...] = ()

    @property
    def paths(self) -> int:
        """Number of directed pairs of different hosts."""
        return len(self.hosts) * (len(self.hosts) - 1)

    @property
    def answered(self) -> int:
        """Number of directed pairs of different hosts with a measured bandwidth."""
        return len(_between(self.beta_Bps))

    @property
    def alpha_median_s(self) -> float | None:
        """Median latency in seconds over the pairs that have one; None if no pair has one."""
        return _median(_between(self.alpha_s))

    @property
    def beta_median_Bps(self) -> float | None:  # noqa: N802 - as in the History
        """Median bandwidth in bytes/s over the pairs that have one; None if no pair has one."""
        return _median(_between(self.beta_Bps))

    def roster(self) -> str:
        """Return the hosts with their cores and memory, and whether they receive IPv6 if known, as JSON.

        Snapshots with equal hosts have equal texts.
        """
        columns = [self.hosts, self.cpus.tolist(), self.memory_bytes.tolist()]
        columns += [] if self.ipv6 is None else [self.ipv6.tolist()]
        return json.dumps(list(zip(*columns, strict=True)), separators=(",", ":"))

    def check(self, what: str) -> None:
        """Raise an error if a value of the snapshot is not valid in a History.

        Args:
            what: the series' name, for the message.

        Raises:
            StoreError: for an invalid value; the message names the array.
        """
        size = len(self.hosts)
        shape = (size, size)
        here = f"{what}: the snapshot at {self.time_s!r} s"
        if not np.isfinite(self.time_s):
            raise StoreError(f"{what}: a snapshot has no time", hint="use a finite Unix time for each")
        if not 1 <= size <= MAX_HOSTS or len(set(self.hosts)) < size:
            raise StoreError(
                f"{here} has {size} hosts, or one of them twice", hint=f"use 1 to {MAX_HOSTS} different names"
            )
        for name in (*self.hosts, self.method or "-"):
            if not name or len(name) > 255 or not name.isprintable():
                raise StoreError(f"{here} names `{name[:60]}`", hint="use 1 to 255 printable characters")
        for key, matrix in (("alpha_s", self.alpha_s), ("beta_Bps", self.beta_Bps)):
            if matrix.shape != shape or np.isinf(matrix).any() or (matrix < 0).any():
                raise StoreError(f"{here}: {key} is not {shape} numbers of at least 0", hint="use NaN for not measured")
        for key, matrix in vars(self.proof).items() if self.proof is not None else ():
            most = len(VERDICTS) - 1 if key == "verdict" else np.inf
            if matrix.shape != shape or (matrix < 0).any() or (matrix > most).any():
                raise StoreError(f"{here}: {key} is not {shape} numbers from 0 to {most}", hint="use NaN for unknown")
        if (self.beta_Bps == 0).any():
            raise StoreError(f"{here}: beta_Bps contains a rate of 0", hint="use NaN for what was not measured")
        if self.hops.shape != shape or self.hops.min() < 0 or self.hops.max() > MAX_HOPS:
            raise StoreError(f"{here}: hops is not {shape} counts up to {MAX_HOPS}", hint="use 0 for unknown")
        if self.cpus.shape != (size,) or not ((self.cpus > 0) & (self.cpus <= MAX_CPUS)).all():
            raise StoreError(f"{here}: cpus is not {size} positive numbers", hint="use one per host")
        memory_bytes = self.memory_bytes
        if memory_bytes.shape != (size,) or not 0 <= memory_bytes.min() <= memory_bytes.max() <= MAX_MEMORY_BYTES:
            raise StoreError(f"{here}: memory_bytes is not {size} sizes", hint="use 0 for unknown")
        for key, matrix in self.extra.items():
            if matrix.shape != shape or (matrix < 0).any() or (matrix > EXTRA[key].most).any():
                raise StoreError(
                    f"{here}: {key} is not {shape} numbers from 0 to {EXTRA[key].most:g}",
                    hint=f"use {EXTRA[key].unknown} for unknown",
                )
        if self.ipv6 is not None and self.ipv6.shape != (size,):
            raise StoreError(f"{here}: ipv6 is not {size} booleans", hint="use one per host")
        if self.hop_addresses is not None and self.hop_addresses.shape[:2] != shape:
            raise StoreError(f"{here}: hop_addresses is not {shape} lists", hint="use empty texts for unknown")


def digest(roster: str) -> str:
    """Return a key of 64 characters (SHA-256) for the JSON text of a list of hosts."""
    return hashlib.sha256(roster.encode()).hexdigest()


def split(history: History) -> Iterator[Snapshot]:
    """Yield the snapshots of a History one by one, without copying its matrices."""
    extra = {key: array for key in EXTRA if (array := getattr(history, key)) is not None}
    last = history.snapshots - 1
    for number, time_s in enumerate(history.time_s.tolist()):
        yield Snapshot(
            time_s=time_s,
            hosts=history.hosts,
            alpha_s=history.alpha_s[number],
            beta_Bps=history.beta_Bps[number],
            hops=history.hops,
            cpus=history.cpus,
            memory_bytes=history.memory_bytes,
            method=history.method,
            proof=None if history.proof is None else _at(history.proof, number),
            extra={key: array[number] if EXTRA[key].each else array for key, array in extra.items()},
            ipv6=history.ipv6,
            hop_addresses=history.hop_addresses,
            evidence=history.evidence if number == last else (),
        )


def _at(proof: Proof, number: int) -> Proof:
    """Return the part of a History's proof that belongs to one snapshot."""
    return Proof(**{key: array[number] for key, array in vars(proof).items()})


def gather(snapshots: Iterable[Snapshot], *, count: int, hosts: Sequence[str], name: str) -> History:
    """Combine snapshots, whose hosts may differ, to one History.

    Values of a host that a snapshot lacks are NaN. `hops`, `cpus`, `memory_bytes`, `mtu_bytes`, `ipv6` and
    `hop_addresses` are the latest known, and `method` lists the different ones. An experiment in which another host
    took part is left out.

    Args:
        snapshots: snapshots in time order.
        count: number of snapshots.
        hosts: the History's hosts; other hosts of the snapshots are left out.
        name: the series' name, for the message.

    Raises:
        StoreError: when the matrices cannot fit in this machine's memory.
    """
    size = len(hosts)
    _check_memory(16 * count * size * size, name)
    history = History(
        alpha_s=np.full((count, size, size), np.nan),
        beta_Bps=np.full((count, size, size), np.nan),
        time_s=np.zeros(count),
        hosts=tuple(hosts),
        hops=np.zeros((size, size), dtype=np.int64),
        cpus=np.ones(size),
        memory_bytes=np.zeros(size, dtype=np.int64),
    )
    index = {host: i for i, host in enumerate(hosts)}
    methods: dict[str, None] = {}
    proof: Proof | None = None
    evidence: list[Evidence] = []
    more: dict[str, npt.NDArray[Any]] = {}
    for number, snapshot in enumerate(snapshots):
        inside = np.array([i for i, host in enumerate(snapshot.hosts) if host in index], dtype=np.intp)
        outside = np.array([index[snapshot.hosts[i]] for i in inside], dtype=np.intp)
        to, of = np.ix_(outside, outside), np.ix_(inside, inside)
        history.time_s[number] = snapshot.time_s
        history.alpha_s[number][to] = snapshot.alpha_s[of]
        history.beta_Bps[number][to] = snapshot.beta_Bps[of]
        if snapshot.proof is not None:
            if proof is None:
                _check_memory((16 + 8 * (len(PROOF_ARRAYS) + 1)) * count * size * size, name)
                proof = Proof.empty((count, size, size))
            for key, array in vars(snapshot.proof).items():
                getattr(proof, key)[number][to] = array[of]
        hops = snapshot.hops[of]
        history.hops[to] = np.where(hops > 0, hops, history.hops[to])
        history.cpus[outside] = snapshot.cpus[inside]
        history.memory_bytes[outside] = snapshot.memory_bytes[inside]
        if snapshot.method:
            methods[snapshot.method] = None
        evidence += [
            piece for piece in snapshot.evidence if all(host in index for pair in piece.pairs for host in pair)
        ]
        for key, matrix in snapshot.extra.items():
            kind = EXTRA[key]
            if key not in more:
                shape = (count, size, size) if kind.each else (size, size)
                more[key] = np.full(shape, kind.unknown, dtype=matrix.dtype)
            if kind.each:
                more[key][number][to] = matrix[of]
            else:
                more[key][to] = np.where(matrix[of] > 0, matrix[of], more[key][to])
        if snapshot.ipv6 is not None:
            more.setdefault("ipv6", np.zeros(size, dtype=np.bool_))[outside] = snapshot.ipv6[inside]
        if snapshot.hop_addresses is not None:
            more["hop_addresses"] = _routed(more.get("hop_addresses"), size, snapshot.hop_addresses[of], to)
    return History(
        **{**vars(history), **more, "method": ", ".join(methods), "proof": proof, "evidence": tuple(evidence)}
    )


def _routed(known: Texts | None, size: int, newest: Texts, to: tuple[npt.NDArray[np.intp], ...]) -> Texts:
    """Return the routers of all paths: the newest ones if a path was traced several times."""
    depth = max(newest.shape[2], 0 if known is None else known.shape[2])
    width = max(newest.dtype.itemsize // 4, 0 if known is None else known.dtype.itemsize // 4, 1)
    whole = np.full((size, size, depth), "", dtype=f"<U{width}")
    if known is not None:
        whole[:, :, : known.shape[2]] = known
    padded = np.full((*newest.shape[:2], depth), "", dtype=whole.dtype)
    padded[:, :, : newest.shape[2]] = newest
    traced = (padded != "").any(axis=2, keepdims=True)
    whole[to] = np.where(traced, padded, whole[to])
    return whole


def _check_memory(needed_bytes: int, name: str) -> None:
    # numpy could reserve the address space, but the kernel would later kill the process.
    there_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed_bytes > there_bytes:
        raise StoreError(
            f"{name}: this needs {needed_bytes / 1e9:.1f} GB of memory, this machine has {there_bytes / 1e9:.1f} GB",
            hint="ask for fewer snapshots or hosts",
        )


def _between(matrix: Floats) -> npt.NDArray[np.float64]:
    """Return the finite values of a matrix outside its diagonal, (n,)."""
    known = np.isfinite(matrix)
    np.fill_diagonal(known, val=False)
    return matrix[known]


def _median(values: npt.NDArray[np.float64]) -> float | None:
    return float(np.median(values)) if len(values) else None
