"""History: n snapshots of the N x N latency and bandwidth between hosts (`*.npz`).

It is the temporal performance matrix (TP-matrix) of the RPCA paper, section IV-A.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError, GavotteError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import OTHER_ENDINGS, parse_json, validate, write_bytes
from gavotte.formats.network import MAX_CPUS, MAX_MEMORY_BYTES
from gavotte.formats.parts.counting import counted
from gavotte.formats.parts.evidence import Evidence
from gavotte.formats.parts.names import known_as, meant, not_a_host_name
from gavotte.tables import Tabular, nullable

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]
Pairs = list[tuple[int, int]]


VERDICTS = ("unproven", "path-limited", "host-limited", "bucket-not-exhausted")
"""Meaning of a value, by its code in `Proof.verdict`.

Only `path-limited` is the path's own rate. The two after it are lower bounds. The meaning of an `unproven` value is
unknown. """

ByTcp = Literal["", "udp-blocked", "fast", "refused"]
BY_TCP: tuple[ByTcp, ...] = ("", "udp-blocked", "fast", "refused")
"""Why bulk TCP measured a path although the method is another, by its code in `History.by_tcp`. Empty = it did not."""

BY_TCP_MARK = "*"
"""Mark after the rates of such paths, wherever they are printed."""

FILLED = 1.25
"""Least ratio of the bytes that came in since the last probe to the measured depth, for a bucket that was full.

A bucket that was emptied and is measured again too early holds just what came in since: a ratio of 1.
"""

PROOF_ARRAYS = ("low_Bps", "high_Bps", "peak_Bps", "bucket_bytes", "loss", "idle_s")
KEYS = {"alpha_s", "beta_Bps", "time_s", "hosts", "hops", "cpus", "memory_bytes", "method"} | {
    *PROOF_ARRAYS, "verdict", "evidence", "hop_addresses", "mtu_bytes", "by_tcp", "several_Bps", "connections",
    "policed", "ipv6", "unqueued", "unqueued_lost", "sent_bytes", "held_out",
}  # fmt: skip
"""The arrays of the format. Other arrays of an archive are ignored."""

MAX_BYTES = 1 << 31
"""Most that all arrays together may unpack to: ten snapshots of 1500 hosts, or one of 4096."""

MAX_BPS_BYTES, MAX_S = 1e17, 1e9
"""Largest rate in bytes/s and largest latency in seconds: the bounds of a Network."""

LEAST_MTU_BYTES, MOST_MTU_BYTES = 68, 65_536
"""Bounds of a path's MTU: least of IPv4 (RFC 791), and loopback's."""

MAX_HOPS = 255
"""Most routers that an IP packet can cross: its time to live is 8 bits."""

MOST_PACKETS = 1 << 30
"""Most packets of one probe."""

MOST_SENT_BYTES = 1e18
"""Most bytes of one probe."""

MOST_CONNECTIONS = 64
"""Most parallel connections of one probe."""

LEAST_BPS = 1.0
"""Least rate in a Network. A slower path counts as not measured."""


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
        with np.errstate(invalid="ignore"):
            return np.asarray(self.idle_s * beta_Bps >= FILLED * self.bucket_bytes, dtype=np.bool_)


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
        if self.by_tcp is None:
            return []
        pairs = np.argwhere((self.by_tcp == BY_TCP.index(why)).any(axis=0))
        return [(int(i), int(j)) for i, j in pairs if i != j]

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
        mine, others = self._known(), other._known()
        return len(others - mine)

    def _known(self) -> set[tuple[str, str]]:
        known = np.isfinite(self.beta_Bps).any(axis=0)
        return {(self.hosts[i], self.hosts[j]) for i, j in np.argwhere(known)}

    def without(self, hosts: Collection[str]) -> History:
        """Return the same snapshots without some hosts, and without every experiment in which those took part.

        Raises:
            GavotteError: for a host that it does not have, or when none is left.
        """
        hosts = {known_as(host, self.hosts) for host in hosts}
        if unknown := sorted(hosts - set(self.hosts)):
            raise GavotteError(
                f"cannot leave out `{unknown[0]}`, which is not in the History", hint=meant(unknown[0], self.hosts)
            )
        indices = [i for i, host in enumerate(self.hosts) if host not in hosts]
        if not indices:
            raise GavotteError("no host is left", hint="leave out fewer")
        return self.of_hosts(indices)

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
    """Read a `*.npz`.

    Raises:
        FormatError: naming file, array and remedy.
    """
    name = str(path)
    check_kind(path, "history")
    try:
        # np.load does not close a file that it opened itself and could not read.
        with Path(path).open("rb") as stream, np.load(stream, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise FormatError(name, "", "is not an .npz archive", "use a History of `gavotte measure`")
            keys = [key for key in archive.files if key in KEYS]
            # Checked before anything is unpacked: 3 MB can hold 3 GB of zeros.
            size = sum(_unpacked_bytes(archive, key) for key in keys)
            if size > MAX_BYTES:
                raise FormatError(
                    name, "", f"unpacks to {size} bytes, more than {MAX_BYTES}", "use a History of `gavotte measure`"
                )
            arrays = {key: archive[key] for key in keys}
    except FormatError:
        raise
    except FileNotFoundError:
        raise FormatError(name, "", "no such file", "check the path") from None
    except IsADirectoryError:
        raise FormatError(name, "", "is a folder", "name a file in it") from None
    except MemoryError:
        raise FormatError(name, "", "is larger than the memory of this machine", "is the file damaged?") from None
    except Exception as error:
        # numpy passes on errors of zipfile, zlib and tokenize; which ones is not documented.
        reason = (str(error).splitlines() or [type(error).__name__])[0][:120]
        if "pickle" in reason:  # numpy's advice for any text file is to load it unsafely
            reason = "it holds no plain arrays"
        raise FormatError(
            name, "", f"is not a readable .npz archive ({reason})", "use a History of `gavotte measure`"
        ) from None
    return _checked(arrays, name)


def _unpacked_bytes(archive: Any, key: str) -> int:
    """Return the bytes of one unpacked array, from its entry in the archive's directory."""
    return int(next(each.file_size for each in archive.zip.infolist() if each.filename in (key, f"{key}.npy")))


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


def write_history(path: str | Path, history: History) -> None:
    """Write a `*.npz`, whole or not at all.

    Raises:
        FormatError: for a name with another format's ending, or a file that cannot be written.
    """
    check_history_path(path)
    arrays: dict[str, Any] = {
        "alpha_s": history.alpha_s,
        "beta_Bps": history.beta_Bps,
        "time_s": history.time_s,
        "hosts": np.array(history.hosts, dtype=np.str_),
        "hops": history.hops,
        "cpus": history.cpus,
        "memory_bytes": history.memory_bytes,
        "method": np.array(history.method, dtype=np.str_),
    }
    if history.proof is not None:
        arrays |= vars(history.proof)
    if history.evidence:
        arrays["evidence"] = np.array([piece.model_dump_json() for piece in history.evidence])
    if history.hop_addresses is not None:
        arrays["hop_addresses"] = history.hop_addresses
    if history.mtu_bytes is not None:
        arrays["mtu_bytes"] = history.mtu_bytes
    keys = ("ipv6", "by_tcp", "several_Bps", "connections", "policed", "unqueued", "unqueued_lost", "sent_bytes")
    for key in (*keys, "held_out"):
        if (array := getattr(history, key)) is not None:
            arrays[key] = array
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_bytes(path, buffer.getvalue())


def _checked(arrays: Mapping[str, npt.NDArray[Any]], path: str) -> History:
    for key in ("alpha_s", "beta_Bps", "time_s", "hosts"):
        if key not in arrays:
            raise FormatError(path, key, "is missing", "add the array")
    hosts = arrays["hosts"]
    if hosts.ndim != 1 or hosts.dtype.kind != "U" or len(hosts) == 0:
        raise FormatError(path, "hosts", "is not a list of names", "use one string per host")
    names = tuple(str(host) for host in hosts)
    for number, each in enumerate(names):
        if reason := not_a_host_name(each):
            raise FormatError(path, f"hosts[{number}]", reason, "rename it where the History is made")
    if len({name.lower() for name in names}) < len(names):
        raise FormatError(path, "hosts", "names a host twice", "use different names")
    time_s = _floats(arrays["time_s"], "time_s", path)
    if time_s.ndim != 1 or len(time_s) == 0 or not np.isfinite(time_s).all():
        raise FormatError(path, "time_s", "is not a list of times", "use one Unix time per snapshot")
    if (backwards := np.flatnonzero(np.diff(time_s) < 0)).size:
        raise FormatError(
            path, f"time_s[{backwards[0] + 1}]", "is before the snapshot above it", "put the snapshots in time order"
        )
    shape = (len(time_s), len(names), len(names))
    matrices = {}
    for key in ("alpha_s", "beta_Bps"):
        matrix = _floats(arrays[key], key, path)
        if matrix.shape != shape:
            raise FormatError(path, key, f"has shape {matrix.shape}", f"use {shape}: snapshots, hosts, hosts")
        if (matrix < 0).any() or (matrix > (MAX_S if key == "alpha_s" else MAX_BPS_BYTES)).any():
            raise FormatError(path, key, "holds a negative or enormous value", "write NaN for what was not measured")
        matrices[key] = matrix
    if (matrices["beta_Bps"] < LEAST_BPS / 8).any():
        raise FormatError(path, "beta_Bps", "holds a rate below 1 bit/s", "use NaN for what was not measured")
    hops = arrays.get("hops", np.zeros(shape[1:], dtype=np.int64))
    memory_bytes = arrays.get("memory_bytes", np.zeros(shape[1:2], dtype=np.int64))
    for key, whole, expected, most in (
        ("hops", hops, shape[1:], MAX_HOPS),
        ("memory_bytes", memory_bytes, shape[1:2], MAX_MEMORY_BYTES),
    ):
        if whole.shape != expected or whole.dtype.kind not in "iu" or (whole.size and whole.min() < 0):
            raise FormatError(
                path, key, f"is {whole.dtype} of shape {whole.shape}", f"use whole numbers of shape {expected}"
            )
        if whole.size and whole.max() > most:
            raise FormatError(path, key, f"holds {whole.max()}", f"it should be at most {most}")
    mtu_bytes = _mtu_bytes(arrays, len(names), path)
    ipv6 = arrays.get("ipv6")
    if ipv6 is not None and (ipv6.shape != shape[1:2] or ipv6.dtype.kind != "b"):
        raise FormatError(path, "ipv6", f"is {ipv6.dtype} of shape {ipv6.shape}", f"use {len(names)} booleans")
    by_tcp = _codes(arrays, "by_tcp", len(BY_TCP), shape, path)
    connections = _codes(arrays, "connections", MOST_CONNECTIONS + 1, shape, path)
    several_Bps = _several(arrays, shape, path)  # noqa: N806
    unqueued, unqueued_lost = _unqueued(arrays, shape, path)
    cpus = _floats(arrays.get("cpus", np.ones(shape[1:2])), "cpus", path)
    if cpus.shape != shape[1:2] or not ((cpus > 0) & (cpus <= MAX_CPUS)).all():
        remedy = f"use one number per host, of at most {MAX_CPUS:.0f}"
        raise FormatError(path, "cpus", "is not a list of positive numbers", remedy)
    method = arrays.get("method", np.array(""))
    return History(
        alpha_s=matrices["alpha_s"],
        beta_Bps=matrices["beta_Bps"],
        time_s=time_s,
        hosts=names,
        hops=hops.astype(np.int64),
        cpus=cpus,
        memory_bytes=memory_bytes.astype(np.int64),
        method=str(method) if method.ndim == 0 and method.dtype.kind == "U" else "",
        proof=_proof(arrays, shape, path),
        evidence=_evidence(arrays, path),
        hop_addresses=_hop_addresses(arrays, len(names), path),
        mtu_bytes=mtu_bytes,
        ipv6=ipv6,
        by_tcp=by_tcp,
        several_Bps=several_Bps,
        connections=connections,
        policed=_codes(arrays, "policed", 2, shape, path),
        unqueued=unqueued,
        unqueued_lost=unqueued_lost,
        sent_bytes=_sent(arrays, shape, path),
        held_out=_codes(arrays, "held_out", 2, shape[1:], path),
    )


def _proof(arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, int, int], path: str) -> Proof | None:
    if "verdict" not in arrays:
        return None
    verdict = arrays["verdict"]
    if verdict.shape != shape or verdict.dtype.kind not in "iu" or not np.isin(verdict, range(len(VERDICTS))).all():
        raise FormatError(
            path, "verdict", "contains unknown verdicts", f"use 0 to {len(VERDICTS) - 1}, in shape {shape}"
        )
    matrices = {}
    for key in PROOF_ARRAYS:
        matrix = _floats(arrays.get(key, np.full(shape, np.nan)), key, path)
        if matrix.shape != shape or (matrix < 0).any():
            raise FormatError(
                path,
                key,
                f"has a negative value or the shape {matrix.shape}",
                f"use 0 or more, or NaN, in shape {shape}",
            )
        matrices[key] = matrix
    return Proof(**matrices, verdict=verdict.astype(np.int64))


def _several(arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, int, int], path: str) -> Floats | None:
    if "several_Bps" not in arrays:
        return None
    rates = _floats(arrays["several_Bps"], "several_Bps", path)
    if rates.shape != shape or (rates < LEAST_BPS / 8).any() or (rates > MAX_BPS_BYTES).any():
        raise FormatError(
            path,
            "several_Bps",
            "has a wrong shape, or a value that is not a rate",
            f"use rates or NaN, in shape {shape}",
        )
    return rates


def _sent(arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, int, int], path: str) -> Floats | None:
    if "sent_bytes" not in arrays:
        return None
    sizes = _floats(arrays["sent_bytes"], "sent_bytes", path)
    if sizes.shape != shape or (sizes < 0).any() or (sizes > MOST_SENT_BYTES).any():
        remedy = f"use 0 to {MOST_SENT_BYTES:g} bytes or NaN, in shape {shape}"
        raise FormatError(path, "sent_bytes", "has a wrong shape, or a value that is no size", remedy)
    return sizes


def _codes(
    arrays: Mapping[str, npt.NDArray[Any]], key: str, count: int, shape: tuple[int, ...], path: str
) -> Ints | None:
    codes = arrays.get(key)
    if codes is None:
        return None
    if codes.shape != shape or codes.dtype.kind not in "iu" or not np.isin(codes, range(count)).all():
        raise FormatError(path, key, "contains unknown codes", f"use 0 to {count - 1}, in shape {shape}")
    return codes.astype(np.int64)


def _unqueued(
    arrays: Mapping[str, npt.NDArray[Any]], shape: tuple[int, int, int], path: str
) -> tuple[Ints | None, Ints | None]:
    if not {"unqueued", "unqueued_lost"} & arrays.keys():
        return None, None
    counts = []
    for key in ("unqueued", "unqueued_lost"):
        array = arrays.get(key)
        if array is None:
            raise FormatError(path, key, "is missing", "give both `unqueued` and `unqueued_lost`")
        if array.shape != shape or array.dtype.kind not in "iu" or (array < 0).any() or (array > MOST_PACKETS).any():
            raise FormatError(path, key, "contains no counts", f"use 0 to {MOST_PACKETS}, in shape {shape}")
        counts.append(array.astype(np.int64))
    if (counts[1] > counts[0]).any():
        raise FormatError(path, "unqueued_lost", "exceeds `unqueued`", "count lost packets in both")
    return counts[0], counts[1]


def _evidence(arrays: Mapping[str, npt.NDArray[Any]], path: str) -> tuple[Evidence, ...]:
    texts = arrays.get("evidence", np.array([], dtype=np.str_))
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise FormatError(path, "evidence", f"is {texts.dtype} of shape {texts.shape}", "use one JSON text per record")
    return tuple(
        validate(Evidence, parse_json(str(text), f"{path}: evidence[{number}]"), f"{path}: evidence[{number}]")
        for number, text in enumerate(texts)
    )


def _hop_addresses(arrays: Mapping[str, npt.NDArray[Any]], size: int, path: str) -> Texts | None:
    addresses = arrays.get("hop_addresses")
    if addresses is not None and (
        addresses.ndim != 3 or addresses.shape[:2] != (size, size) or addresses.dtype.kind != "U"
    ):
        raise FormatError(
            path,
            "hop_addresses",
            f"is {addresses.dtype} of shape {addresses.shape}",
            f"use texts of shape ({size}, {size}, hops)",
        )
    return addresses


def _mtu_bytes(arrays: Mapping[str, npt.NDArray[Any]], size: int, path: str) -> Ints | None:
    sizes = arrays.get("mtu_bytes")
    if sizes is None:
        return None
    if sizes.shape != (size, size) or sizes.dtype.kind not in "iu":
        raise FormatError(
            path,
            "mtu_bytes",
            f"is {sizes.dtype} of shape {sizes.shape}",
            f"use whole numbers of shape ({size}, {size})",
        )
    outside = (sizes != 0) & ((sizes < LEAST_MTU_BYTES) | (sizes > MOST_MTU_BYTES))
    if outside.any():
        remedy = f"use {LEAST_MTU_BYTES} to {MOST_MTU_BYTES}, or 0 for unknown"
        raise FormatError(path, "mtu_bytes", f"holds {sizes[outside][0]}", remedy)
    return sizes.astype(np.int64)


def _floats(array: npt.NDArray[Any], key: str, path: str) -> Floats:
    if array.dtype.kind not in "fiu":
        raise FormatError(path, key, f"contains {array.dtype}", "use numbers")
    return array.astype(np.float64)
