"""Arrays of a History's file: how they are loaded, and what is checked before they are used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gavotte.errors import FormatError
from gavotte.formats.files.kinds import check_kind
from gavotte.formats.files.reading import parse_json, validate
from gavotte.formats.network import MAX_CPUS, MAX_MEMORY_BYTES
from gavotte.formats.parts.evidence import Evidence
from gavotte.formats.parts.names import not_a_host_name

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Arrays = Mapping[str, npt.NDArray[Any]]

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
BY_SNAPSHOT = (
    "alpha_s", "beta_Bps", *PROOF_ARRAYS, "verdict", "by_tcp", "several_Bps", "connections", "policed", "unqueued",
    "unqueued_lost", "sent_bytes",
)  # fmt: skip
"""Arrays with a value of each snapshot and pair."""

BY_PAIR = ("hops", "hop_addresses", "mtu_bytes", "held_out")
"""Arrays with a value of each pair."""

KEYS = {*BY_SNAPSHOT, *BY_PAIR, "time_s", "hosts", "cpus", "memory_bytes", "method", "evidence", "ipv6"} | {
    "pairs", "lengths", "clusters",
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


def bucket_full(beta_Bps: Floats, bucket_bytes: Floats, idle_s: Floats) -> npt.NDArray[np.bool_]:  # noqa: N803
    """Return where a bucket's depth is the whole depth; elsewhere, the probe met a bucket that was still filling.

    Args:
        beta_Bps: sustained rates in bytes/s; a bucket fills at no less.
        bucket_bytes: depths that probes saw, wire bytes.
        idle_s: how long before the probe the bucket could fill.

    Returns:
        in the same shape; False where no depth is known.
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(idle_s * beta_Bps >= FILLED * bucket_bytes, dtype=np.bool_)


def loaded(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """Load the arrays of a `*.npz`.

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
            return {key: archive[key] for key in keys}
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


def _unpacked_bytes(archive: Any, key: str) -> int:
    """Return the bytes of one unpacked array, from its entry in the archive's directory."""
    return int(next(each.file_size for each in archive.zip.infolist() if each.filename in (key, f"{key}.npy")))


def checked_hosts(arrays: Arrays, path: str) -> tuple[str, ...]:
    """Return the names of hosts.

    Raises:
        FormatError: naming the field.
    """
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
    return names


def checked_times(arrays: Arrays, path: str) -> Floats:
    """Return the (n,) times of snapshots.

    Raises:
        FormatError: naming the field.
    """
    time_s = _floats(arrays["time_s"], "time_s", path)
    if time_s.ndim != 1 or len(time_s) == 0 or not np.isfinite(time_s).all():
        raise FormatError(path, "time_s", "is not a list of times", "use one Unix time per snapshot")
    if (backwards := np.flatnonzero(np.diff(time_s) < 0)).size:
        raise FormatError(
            path, f"time_s[{backwards[0] + 1}]", "is before the snapshot above it", "put the snapshots in time order"
        )
    return time_s


def checked_of_hosts(arrays: Arrays, size: int, path: str) -> dict[str, Any]:
    """Return what is known of each host and of all: cpus, memory_bytes, ipv6, method and evidence.

    Raises:
        FormatError: naming the field.
    """
    memory_bytes = arrays.get("memory_bytes", np.zeros(size, dtype=np.int64))
    _check_counts(memory_bytes, "memory_bytes", (size,), MAX_MEMORY_BYTES, path)
    ipv6 = arrays.get("ipv6")
    if ipv6 is not None and (ipv6.shape != (size,) or ipv6.dtype.kind != "b"):
        raise FormatError(path, "ipv6", f"is {ipv6.dtype} of shape {ipv6.shape}", f"use {size} booleans")
    cpus = _floats(arrays.get("cpus", np.ones(size)), "cpus", path)
    if cpus.shape != (size,) or not ((cpus > 0) & (cpus <= MAX_CPUS)).all():
        remedy = f"use one number per host, of at most {MAX_CPUS:.0f}"
        raise FormatError(path, "cpus", "is not a list of positive numbers", remedy)
    method = arrays.get("method", np.array(""))
    return {
        "cpus": cpus,
        "memory_bytes": memory_bytes.astype(np.int64),
        "ipv6": ipv6,
        "method": str(method) if method.ndim == 0 and method.dtype.kind == "U" else "",
        "evidence": _evidence(arrays, path),
    }


def checked_values(arrays: Arrays, shape: tuple[int, ...], path: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays of values of pairs that the file has.

    Args:
        arrays: the file's.
        shape: expected shape of values of each snapshot: (n, N, N), or (n, P) for P pairs.
        path: name of the file, for errors.

    Raises:
        FormatError: naming the field.
    """
    values: dict[str, npt.NDArray[Any]] = {}
    axes = "snapshots, hosts, hosts" if len(shape) == 3 else "snapshots, pairs"
    for key in ("alpha_s", "beta_Bps"):
        matrix = _floats(arrays[key], key, path)
        if matrix.shape != shape:
            raise FormatError(path, key, f"has shape {matrix.shape}", f"use {shape}: {axes}")
        if (matrix < 0).any() or (matrix > (MAX_S if key == "alpha_s" else MAX_BPS_BYTES)).any():
            raise FormatError(path, key, "holds a negative or enormous value", "write NaN for what was not measured")
        values[key] = matrix
    if (values["beta_Bps"] < LEAST_BPS / 8).any():
        raise FormatError(path, "beta_Bps", "holds a rate below 1 bit/s", "use NaN for what was not measured")
    hops = arrays.get("hops", np.zeros(shape[1:], dtype=np.int64))
    _check_counts(hops, "hops", shape[1:], MAX_HOPS, path)
    several, lost = _several(arrays, shape, path), _unqueued(arrays, shape, path)
    others = {
        "hops": hops.astype(np.int64),
        "mtu_bytes": _mtu_bytes(arrays, shape[1:], path),
        "by_tcp": _codes(arrays, "by_tcp", len(BY_TCP), shape, path),
        "connections": _codes(arrays, "connections", MOST_CONNECTIONS + 1, shape, path),
        "several_Bps": several,
        "unqueued": lost[0],
        "unqueued_lost": lost[1],
        "policed": _codes(arrays, "policed", 2, shape, path),
        "sent_bytes": _sent(arrays, shape, path),
        "held_out": _codes(arrays, "held_out", 2, shape[1:], path),
        "hop_addresses": _hop_addresses(arrays, shape[1:], path),
        **_proof(arrays, shape, path),
    }
    return values | {key: array for key, array in others.items() if array is not None}


def _check_counts(counts: npt.NDArray[Any], key: str, shape: tuple[int, ...], most: int, path: str) -> None:
    if counts.shape != shape or counts.dtype.kind not in "iu" or (counts.size and counts.min() < 0):
        raise FormatError(
            path, key, f"is {counts.dtype} of shape {counts.shape}", f"use whole numbers of shape {shape}"
        )
    if counts.size and counts.max() > most:
        raise FormatError(path, key, f"holds {counts.max()}", f"it should be at most {most}")


def _proof(arrays: Arrays, shape: tuple[int, ...], path: str) -> dict[str, npt.NDArray[Any]]:
    if "verdict" not in arrays:
        return {}
    verdict = arrays["verdict"]
    if verdict.shape != shape or verdict.dtype.kind not in "iu" or not np.isin(verdict, range(len(VERDICTS))).all():
        raise FormatError(
            path, "verdict", "contains unknown verdicts", f"use 0 to {len(VERDICTS) - 1}, in shape {shape}"
        )
    matrices: dict[str, npt.NDArray[Any]] = {"verdict": verdict.astype(np.int64)}
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
    return matrices


def _several(arrays: Arrays, shape: tuple[int, ...], path: str) -> Floats | None:
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


def _sent(arrays: Arrays, shape: tuple[int, ...], path: str) -> Floats | None:
    if "sent_bytes" not in arrays:
        return None
    sizes = _floats(arrays["sent_bytes"], "sent_bytes", path)
    if sizes.shape != shape or (sizes < 0).any() or (sizes > MOST_SENT_BYTES).any():
        remedy = f"use 0 to {MOST_SENT_BYTES:g} bytes or NaN, in shape {shape}"
        raise FormatError(path, "sent_bytes", "has a wrong shape, or a value that is no size", remedy)
    return sizes


def _codes(arrays: Arrays, key: str, count: int, shape: tuple[int, ...], path: str) -> Ints | None:
    codes = arrays.get(key)
    if codes is None:
        return None
    if codes.shape != shape or codes.dtype.kind not in "iu" or not np.isin(codes, range(count)).all():
        raise FormatError(path, key, "contains unknown codes", f"use 0 to {count - 1}, in shape {shape}")
    return codes.astype(np.int64)


def _unqueued(arrays: Arrays, shape: tuple[int, ...], path: str) -> tuple[Ints | None, Ints | None]:
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


def _evidence(arrays: Arrays, path: str) -> tuple[Evidence, ...]:
    texts = arrays.get("evidence", np.array([], dtype=np.str_))
    if texts.ndim != 1 or texts.dtype.kind != "U":
        raise FormatError(path, "evidence", f"is {texts.dtype} of shape {texts.shape}", "use one JSON text per record")
    return tuple(
        validate(Evidence, parse_json(str(text), f"{path}: evidence[{number}]"), f"{path}: evidence[{number}]")
        for number, text in enumerate(texts)
    )


def _hop_addresses(arrays: Arrays, shape: tuple[int, ...], path: str) -> npt.NDArray[Any] | None:
    addresses = arrays.get("hop_addresses")
    if addresses is not None and (addresses.shape[:-1] != shape or addresses.dtype.kind != "U"):
        raise FormatError(
            path,
            "hop_addresses",
            f"is {addresses.dtype} of shape {addresses.shape}",
            f"use texts of shape ({', '.join(map(str, shape))}, hops)",
        )
    return addresses


def _mtu_bytes(arrays: Arrays, shape: tuple[int, ...], path: str) -> Ints | None:
    sizes = arrays.get("mtu_bytes")
    if sizes is None:
        return None
    if sizes.shape != shape or sizes.dtype.kind not in "iu":
        raise FormatError(
            path, "mtu_bytes", f"is {sizes.dtype} of shape {sizes.shape}", f"use whole numbers of shape {shape}"
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
