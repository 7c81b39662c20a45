"""Compress and decompress the rows of matrices that the database stores, one row per host."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from gavotte.formats.history import PROOF_ARRAYS, VERDICTS, Proof
from gavotte.store.errors import DamageError

_LEVEL = 1
"""Level of zlib. Higher levels compress no better, because measured rates and latencies have random mantissas."""
_MOST_BYTES = 64 << 20
"""Largest unpacked size of a row of lists: 4096 paths of 255 routers with 45 characters each are 47 MB."""


def pack(values: npt.NDArray[Any], kind: str) -> bytes:
    """Compress a vector of numbers without loss.

    The bytes are shuffled first (all first bytes, then all second ones), so that the exponents are adjacent.

    Args:
        values: (N,) numbers.
        kind: numpy's name of the stored type, little-endian: `<f8` or `<i4`.
    """
    stored = np.ascontiguousarray(values, dtype=kind)
    return zlib.compress(stored.view(np.uint8).reshape(len(stored), -1).T.tobytes(), _LEVEL)


def unpack(content: bytes, kind: str, size: int) -> npt.NDArray[Any]:
    """Decompress a vector of numbers that `pack` compressed.

    Args:
        content: result of `pack`.
        kind: as in `pack`.
        size: number of values, N.

    Raises:
        DamageError: when `pack` cannot have returned the content.
    """
    dtype = np.dtype(kind)
    whole = size * dtype.itemsize
    inflate = zlib.decompressobj()
    try:
        plain = inflate.decompress(content, whole + 1)
    except (zlib.error, TypeError):
        raise DamageError("a matrix row") from None
    if len(plain) != whole or not inflate.eof or inflate.unused_data:
        raise DamageError(f"a matrix row of {len(plain)} bytes where {whole} belong")
    return np.frombuffer(plain, np.uint8).reshape(dtype.itemsize, size).T.copy().view(dtype).reshape(size)


def pack_lists(lists: Sequence[Sequence[str]]) -> bytes:
    """Compress one host's lists of texts, one list for each target."""
    return zlib.compress(json.dumps(lists, separators=(",", ":")).encode(), _LEVEL)


def unpack_lists(content: bytes, size: int) -> list[list[str]]:
    """Decompress lists of texts that `pack_lists` compressed.

    Args:
        content: result of `pack_lists`.
        size: number of lists.

    Raises:
        DamageError: when `pack_lists` cannot have returned the content.
    """
    inflate = zlib.decompressobj()
    try:
        lists = json.loads(inflate.decompress(content, _MOST_BYTES))
    except (zlib.error, TypeError, ValueError):
        raise DamageError("a row of lists") from None
    if not (isinstance(lists, list) and len(lists) == size and all(map(_is_list_of_texts, lists))):
        raise DamageError("a row of lists")
    return lists


def _is_list_of_texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def pack_proof(proof: Proof, row: int) -> bytes:
    """Compress one host's row of a snapshot's proof, whose arrays are (N, N)."""
    rows = [getattr(proof, key)[row] for key in PROOF_ARRAYS] + [proof.verdict[row]]
    return pack(np.concatenate(rows), "<f8")


def unpack_proof(content: bytes, size: int) -> dict[str, npt.NDArray[Any]]:
    """Decompress one host's row of a proof; return each array's row, (N,), by the array's name.

    Raises:
        DamageError: when `pack_proof` cannot have returned the content.
    """
    keys = (*PROOF_ARRAYS, "verdict")
    rows = dict(zip(keys, unpack(content, "<f8", len(keys) * size).reshape(len(keys), size), strict=True))
    if not np.isin(rows["verdict"], range(len(VERDICTS))).all() or any((row < 0).any() for row in rows.values()):
        raise DamageError("a row of a proof")
    return rows | {"verdict": rows["verdict"].astype(np.int64)}
