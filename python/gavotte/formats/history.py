"""History: n snapshots of the N x N latency and bandwidth between hosts (`*.npz`).

It is the temporal performance matrix (TP-matrix) of the RPCA paper, section IV-A. A file of version 1 has matrices. One
of version 2 has only the pairs that were measured (`PairHistory`), as for many hosts few pairs show the rates of all.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError
from gavotte.formats.files.reading import OTHER_ENDINGS, write_bytes
from gavotte.formats.network import MOST_IN_MATRICES
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.evidence import Evidence
from gavotte.formats.parts.history_arrays import (
    BY_PAIR,
    BY_SNAPSHOT,
    MAX_BYTES,
    checked_hosts,
    checked_of_hosts,
    checked_times,
    checked_values,
    loaded,
)
from gavotte.formats.parts.history_arrays import BY_TCP as BY_TCP
from gavotte.formats.parts.history_arrays import BY_TCP_MARK as BY_TCP_MARK
from gavotte.formats.parts.history_arrays import LEAST_BPS as LEAST_BPS
from gavotte.formats.parts.history_arrays import MAX_BPS_BYTES as MAX_BPS_BYTES
from gavotte.formats.parts.history_arrays import MAX_HOPS as MAX_HOPS
from gavotte.formats.parts.history_arrays import MOST_CONNECTIONS as MOST_CONNECTIONS
from gavotte.formats.parts.history_arrays import MOST_MTU_BYTES as MOST_MTU_BYTES
from gavotte.formats.parts.history_arrays import MOST_PACKETS as MOST_PACKETS
from gavotte.formats.parts.history_arrays import MOST_SENT_BYTES as MOST_SENT_BYTES
from gavotte.formats.parts.history_arrays import PROOF_ARRAYS as PROOF_ARRAYS
from gavotte.formats.parts.history_arrays import VERDICTS as VERDICTS
from gavotte.formats.parts.history_arrays import ByTcp as ByTcp
from gavotte.formats.parts.history_arrays import Floats as Floats
from gavotte.formats.parts.history_arrays import Ints as Ints
from gavotte.formats.parts.history_arrays import bucket_full as bucket_full
from gavotte.formats.parts.lengths import Lengths
from gavotte.formats.parts.names import left_after
from gavotte.formats.parts.pair_history import PairHistory as PairHistory
from gavotte.tables import Tabular, nullable

Texts = npt.NDArray[np.str_]
Pairs = list[tuple[int, int]]


@dataclass(frozen=True)
class Proof:
    """How far each value of `beta_Bps` can be trusted. All arrays are (n, N, N); NaN = unknown.

    Attributes:
        low_Bps: lower end of its 95 % interval, TCP goodput in bytes/s.
        high_Bps: upper end of it.
        peak_Bps: rate while the path's token bucket lasts.
        bucket_bytes: depth of the bucket, wire bytes.
        loss: share of packets that the path lost.
        idle_s: how long before the probe its source had not sent, nor its target received, any other probe; infinite
            for the first.
        verdict: index into `VERDICTS`.
    """

    low_Bps: Floats  # noqa: N815 - the file format's key, unit included
    high_Bps: Floats  # noqa: N815
    peak_Bps: Floats  # noqa: N815
    bucket_bytes: Floats
    loss: Floats
    idle_s: Floats
    verdict: Ints

    @classmethod
    def empty(cls, shape: tuple[int, ...]) -> Proof:
        """Return a Proof in which nothing is known."""
        return cls(**{key: np.full(shape, np.nan) for key in PROOF_ARRAYS}, verdict=np.zeros(shape, dtype=np.int64))

    def bucket_full(self, beta_Bps: Floats) -> npt.NDArray[np.bool_]:  # noqa: N803 - the file format's key
        """Return whether `bucket_bytes` is the whole depth; if not, the probe met a bucket that was still filling.

        Args:
            beta_Bps: (n, N, N) sustained rates; a bucket fills at no less.

        Returns:
            (n, N, N); False where no depth is known.
        """
        return bucket_full(beta_Bps, self.bucket_bytes, self.idle_s)


@dataclass(frozen=True)
class History(Tabular):
    """Snapshots in time order. Row = source; NaN = not measured; the diagonal is NaN.

    Attributes:
        alpha_s: (n, N, N) one-way latency in seconds.
        beta_Bps: (n, N, N) bulk TCP goodput in bytes/s.
        time_s: (n,) Unix time at the start of each snapshot.
        hosts: N names.
        hops: (N, N) path length as traceroute counts it (routers + 1), 0 = unknown.
        cpus: (N,) cores of each host.
        memory_bytes: (N,) memory of each host, 0 = unknown.
        method: how it was measured.
        proof: how far each value can be trusted; None if the method does not report it.
        evidence: what pairs carried at the same time.
        hop_addresses: (N, N, H) address of each router on the path, "" = none or silent; None = not traced.
        mtu_bytes: (N, N) largest IP packet that each path carried in one piece when it was last measured, 0 = unknown;
            None = unknown for all.
        ipv6: (N,) whether other hosts send each host IPv6 packets, whose headers are 20 bytes larger; None = no host
            receives IPv6.
        by_tcp: (n, N, N) index into `BY_TCP`: why bulk TCP measured the path although `method` is another; None = bulk
            TCP measured no path.
        several_Bps: (n, N, N) total rate of several parallel connections, in bytes/s, where `beta_Bps` is the rate of
            one; NaN = not tried. None = tried on no path.
        connections: (n, N, N) the least number of connections that carries `several_Bps`, 0 = not tried; None = tried
            on no path.
        policed: (n, N, N) 1 where the path drops packets above its rate instead of letting them wait, else 0; None = no
            path does.
        unqueued: (n, N, N) packets of each probe that met no full queue, lost ones included, 0 = not counted; None = no
            probe lost any of them.
        unqueued_lost: (n, N, N) losses among `unqueued`, not by overflow but at random; packets lost in a row count
            once. None with `unqueued`.
        sent_bytes: (n, N, N) bytes that the last probe of each path carried at its rate, NaN = unknown; None = unknown
            for all.
        held_out: (N, N) 1 for pairs that check what the others predict, else 0. None = the measurement did not choose
            few pairs to show the rates of all.
    """

    alpha_s: Floats
    beta_Bps: Floats  # noqa: N815 - the file format's key, unit included
    time_s: Floats
    hosts: tuple[str, ...]
    hops: Ints
    cpus: Floats
    memory_bytes: Ints
    method: str = ""
    proof: Proof | None = None
    evidence: tuple[Evidence, ...] = ()
    hop_addresses: Texts | None = None
    mtu_bytes: Ints | None = None
    ipv6: npt.NDArray[np.bool_] | None = None
    by_tcp: Ints | None = None
    several_Bps: Floats | None = None  # noqa: N815
    connections: Ints | None = None
    policed: Ints | None = None
    unqueued: Ints | None = None
    unqueued_lost: Ints | None = None
    sent_bytes: Floats | None = None
    held_out: Ints | None = None

    def __repr__(self) -> str:
        """Return what it is in one line."""
        return (
            f"<History: {counted(self.snapshots, 'snapshot')} of {counted(len(self.hosts), 'host')}, "
            f"{self.answered} paths measured by {self.method or 'an unknown method'}>"
        )

    def _repr_html_(self) -> str:
        """Return the newest rates as notebooks show them, or for many hosts the first rows."""
        from gavotte.formats.parts.rate_matrix import MOST_IN_MATRIX, rate_matrix

        if len(self.hosts) > MOST_IN_MATRIX:
            return super()._repr_html_()
        return rate_matrix(repr(self).strip("<>"), self.hosts, nullable(8 * self.beta_Bps[-1]))

    @property
    def snapshots(self) -> int:
        """Number of snapshots."""
        return len(self.time_s)

    @property
    def answered(self) -> int:
        """Number of directed pairs with at least one bandwidth value."""
        return int(np.isfinite(self.beta_Bps).any(axis=0).sum())

    def mtu(self) -> Ints:
        """Return the (N, N) `mtu_bytes`, 0 where it is unknown."""
        return np.zeros((len(self.hosts),) * 2, dtype=np.int64) if self.mtu_bytes is None else self.mtu_bytes

    def over_ipv6(self) -> npt.NDArray[np.bool_]:
        """(N,) `ipv6`, False where it is unknown."""
        return np.zeros(len(self.hosts), dtype=np.bool_) if self.ipv6 is None else self.ipv6

    def measured_by_tcp(self, why: ByTcp) -> Pairs:
        """Return the (source, target) indices that bulk TCP measured for this reason in any snapshot, in order."""
        return [] if self.by_tcp is None else self.in_pairs().measured_by_tcp(why)

    def to_records(self) -> list[dict[str, Any]]:
        """Return one row per pair and snapshot: time_s, source, target, alpha_s, beta_Bps."""
        return [
            {"time_s": time_s, "source": s, "target": t, "alpha_s": alpha_s[i, j], "beta_Bps": beta_Bps[i, j]}
            for time_s, alpha_s, beta_Bps in zip(self.time_s, self.alpha_s, self.beta_Bps, strict=True)
            for i, s in enumerate(self.hosts)
            for j, t in enumerate(self.hosts)
            if i != j
        ]

    def lacks(self, other: History) -> int:
        """Return the number of directed pairs for which another History has a rate and this one has none."""
        return self.in_pairs().lacks(other.in_pairs())

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays of pairs by the keys of a file, those of the proof included."""
        known = {key: getattr(self, key) for key in (*BY_SNAPSHOT, *BY_PAIR) if hasattr(self, key)}
        known |= {} if self.proof is None else vars(self.proof)
        return {key: array for key, array in known.items() if array is not None}

    def in_pairs(self) -> PairHistory:
        """Return the same as a list of the pairs of which anything is known."""
        arrays = self.arrays()
        known = np.isfinite(self.alpha_s).any(axis=0) | np.isfinite(self.beta_Bps).any(axis=0) | (self.hops > 0)
        for key in ("mtu_bytes", "held_out"):
            known |= arrays.get(key, 0) > 0
        np.fill_diagonal(known, val=False)
        pairs = np.argwhere(known)
        return PairHistory(
            hosts=self.hosts,
            time_s=self.time_s,
            pairs=pairs,
            values={
                key: array[:, pairs[:, 0], pairs[:, 1]] if key in BY_SNAPSHOT else array[pairs[:, 0], pairs[:, 1]]
                for key, array in arrays.items()
            },
            lengths=Lengths(len(self.hosts)),
            cpus=self.cpus,
            memory_bytes=self.memory_bytes,
            method=self.method,
            evidence=self.evidence,
            ipv6=self.ipv6,
        )

    @classmethod
    def of_pairs(cls, pairs: PairHistory) -> History:
        """Return the History with matrices, in which other pairs are unknown."""
        return cls(
            hosts=pairs.hosts,
            time_s=pairs.time_s,
            cpus=pairs.cpus,
            memory_bytes=pairs.memory_bytes,
            method=pairs.method,
            evidence=pairs.evidence,
            ipv6=pairs.ipv6,
            **_fields({key: pairs.matrix(key) for key in (*pairs.values, "hops")}),
        )

    def without(self, hosts: Collection[str]) -> History:
        """Return the same snapshots without some hosts, and without every experiment in which those took part.

        Raises:
            GavotteError: for a host that it does not have, or when none is left.
        """
        return self.of_hosts(left_after(self.hosts, hosts))

    def of_hosts(self, chosen: Sequence[int]) -> History:
        """Return the History of some of its hosts, in the given order, with the experiments among them."""
        pairs = np.ix_(range(self.snapshots), chosen, chosen)
        hosts = tuple(self.hosts[i] for i in chosen)
        return replace(
            self,
            alpha_s=self.alpha_s[pairs],
            beta_Bps=self.beta_Bps[pairs],
            hosts=hosts,
            hops=self.hops[np.ix_(chosen, chosen)],
            cpus=self.cpus[list(chosen)],
            memory_bytes=self.memory_bytes[list(chosen)],
            proof=None if self.proof is None else Proof(**{key: each[pairs] for key, each in vars(self.proof).items()}),
            evidence=tuple(
                piece for piece in self.evidence if all(host in hosts for pair in piece.pairs for host in pair)
            ),
            hop_addresses=None if self.hop_addresses is None else self.hop_addresses[np.ix_(chosen, chosen)],
            mtu_bytes=None if self.mtu_bytes is None else self.mtu_bytes[np.ix_(chosen, chosen)],
            ipv6=None if self.ipv6 is None else self.ipv6[list(chosen)],
            by_tcp=None if self.by_tcp is None else self.by_tcp[pairs],
            several_Bps=None if self.several_Bps is None else self.several_Bps[pairs],
            connections=None if self.connections is None else self.connections[pairs],
            policed=None if self.policed is None else self.policed[pairs],
            unqueued=None if self.unqueued is None else self.unqueued[pairs],
            unqueued_lost=None if self.unqueued_lost is None else self.unqueued_lost[pairs],
            sent_bytes=None if self.sent_bytes is None else self.sent_bytes[pairs],
            held_out=None if self.held_out is None else self.held_out[np.ix_(chosen, chosen)],
        )


def read_history(path: str | Path) -> History:
    """Read a `*.npz` of any version into matrices.

    Raises:
        FormatError: naming file, array and remedy; also where the matrices of many hosts would be too large.
    """
    arrays = loaded(path)
    if "pairs" not in arrays:
        return _checked(arrays, str(path))
    pairs = _checked_pairs(arrays, str(path))
    size = pairs.snapshots * len(pairs.hosts) ** 2 * 8 * len(pairs.values)
    if size > MAX_BYTES:
        raise FormatError(
            str(path),
            "hosts",
            f"are {len(pairs.hosts)}, too many for matrices",
            "use `gavotte model` to learn a Network from it",
        )
    return History.of_pairs(pairs)


def read_pairs(path: str | Path) -> PairHistory:
    """Read a `*.npz` of any version as a list of the pairs that were measured.

    Raises:
        FormatError: naming file, array and remedy.
    """
    arrays = loaded(path)
    return _checked_pairs(arrays, str(path)) if "pairs" in arrays else _checked(arrays, str(path)).in_pairs()


def in_fitting_form(history: PairHistory) -> History | PairHistory:
    """Return a History with matrices, or for more than `MOST_IN_MATRICES` hosts the given one."""
    return history if len(history.hosts) > MOST_IN_MATRICES else History.of_pairs(history)


def check_history_path(path: str | Path) -> None:
    """Refuse a name that promises another format than a History has.

    Raises:
        FormatError: naming the file.
    """
    if Path(path).suffix.lower() in OTHER_ENDINGS - {".npz"}:
        raise FormatError(
            str(path),
            "",
            "a History is written as .npz",
            f"use -o {Path(path).stem}.npz; `gavotte history export` writes a series as .csv or .parquet",
        )


def write_history(path: str | Path, history: History | PairHistory) -> None:
    """Write a `*.npz`, whole or not at all: with matrices, or for a `PairHistory` with pairs.

    Raises:
        FormatError: for a name with another format's ending, or a file that cannot be written.
    """
    check_history_path(path)
    arrays: dict[str, Any] = {
        "time_s": history.time_s,
        "hosts": np.array(history.hosts, dtype=np.str_),
        "cpus": history.cpus,
        "memory_bytes": history.memory_bytes,
        "method": np.array(history.method, dtype=np.str_),
        **history.arrays(),
    }
    if history.evidence:
        arrays["evidence"] = np.array([piece.model_dump_json() for piece in history.evidence])
    if history.ipv6 is not None:
        arrays["ipv6"] = history.ipv6
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def _checked(arrays: Mapping[str, npt.NDArray[Any]], path: str) -> History:
    names, time_s = checked_hosts(arrays, path), checked_times(arrays, path)
    values = checked_values(arrays, (len(time_s), len(names), len(names)), path)
    return History(hosts=names, time_s=time_s, **_fields(values), **checked_of_hosts(arrays, len(names), path))


def _fields(values: Mapping[str, npt.NDArray[Any]]) -> dict[str, Any]:
    """Return the arrays of pairs as fields of a History: those of the proof together."""
    proof = {key: values[key] for key in (*PROOF_ARRAYS, "verdict") if key in values}
    return {key: array for key, array in values.items() if key not in proof} | {
        "proof": Proof(**proof) if proof else None
    }


def _checked_pairs(arrays: Mapping[str, npt.NDArray[Any]], path: str) -> PairHistory:
    names, time_s = checked_hosts(arrays, path), checked_times(arrays, path)
    size = len(names)
    pairs = arrays["pairs"]
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        remedy = "use two host numbers for each pair"
        raise FormatError(path, "pairs", f"is {pairs.dtype} of shape {pairs.shape}", remedy)
    if pairs.size and (pairs.min() < 0 or pairs.max() >= size):
        raise FormatError(path, "pairs", "names a host that is missing", f"use 0 to {size - 1}")
    pairs = pairs.astype(np.int64)
    if (np.diff(pairs @ (size, 1)) <= 0).any() or (pairs[:, 0] == pairs[:, 1]).any():
        remedy = "give each pair of two hosts once, in the order of sources and then targets"
        raise FormatError(path, "pairs", "are not in order", remedy)
    return PairHistory(
        hosts=names,
        time_s=time_s,
        pairs=pairs,
        values=checked_values(arrays, (len(time_s), len(pairs)), path),
        lengths=_checked_lengths(arrays, size, path),
        **checked_of_hosts(arrays, size, path),
    )


def _checked_lengths(arrays: Mapping[str, npt.NDArray[Any]], size: int, path: str) -> Lengths:
    kinds = arrays.get("lengths", np.zeros(0, dtype=np.int64))
    if kinds.ndim != 1 or kinds.dtype.kind not in "iu" or not ((kinds > 0) & (kinds <= MAX_HOPS)).all():
        raise FormatError(path, "lengths", "are no path lengths", f"use whole numbers from 1 to {MAX_HOPS}")
    clusters = arrays.get("clusters", np.zeros((len(kinds), size), dtype=np.int64))
    if clusters.shape != (len(kinds), size) or clusters.dtype.kind not in "iu":
        remedy = f"use a number of a cluster for each of {len(kinds)} lengths and {size} hosts"
        raise FormatError(path, "clusters", f"is {clusters.dtype} of shape {clusters.shape}", remedy)
    if (np.diff(kinds.astype(np.int64)) <= 0).any():
        raise FormatError(path, "lengths", "are not in ascending order", "sort them, and `clusters` with them")
    return Lengths.of_clusters(size, dict(zip(kinds.tolist(), clusters, strict=True)))
