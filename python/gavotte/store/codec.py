"""Vectors of numbers as they lie in the database: one host's row of a matrix, compressed."""

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
"""Measured rates and latencies have random mantissas, where higher levels of zlib find nothing more."""
_MOST_BYTES = 64 << 20
"""Most that a row of lists may unpack to: 4096 paths of 255 routers with 45 characters each are 47 MB."""


def pack(values: npt.NDArray[Any], kind: str) -> bytes:
    """Compresses a vector without loss.

    The bytes are shuffled first (all first bytes, then all second ones), which puts the exponents together.

    Args:
        values: (N,) numbers.
        kind: numpy's name of the stored type, little-endian: `<f8` or `<i4`.
    """
    stored = np.ascontiguousarray(values, dtype=kind)
    return zlib.compress(stored.view(np.uint8).reshape(len(stored), -1).T.tobytes(), _LEVEL)


def unpack(content: bytes, kind: str, size: int) -> npt.NDArray[Any]:
    """What `pack` was given.

    Args:
        content: what `pack` returned.
        kind: as in `pack`.
        size: N.

    Raises:
        DamageError: when the content is anything else.
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
    """Compresses one list of texts for each target."""
    return zlib.compress(json.dumps(lists, separators=(",", ":")).encode(), _LEVEL)


def unpack_lists(content: bytes, size: int) -> list[list[str]]:
    """What `pack_lists` was given.

    Args:
        content: what `pack_lists` returned.
        size: number of lists.

    Raises:
        DamageError: when the content is anything else.
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
    """Compresses one host's row of a proof whose arrays are (N, N)."""
    rows = [getattr(proof, key)[row] for key in PROOF_ARRAYS] + [proof.verdict[row]]
    return pack(np.concatenate(rows), "<f8")


def unpack_proof(content: bytes, size: int) -> dict[str, npt.NDArray[Any]]:
    """What `pack_proof` was given, by the name of the array, each (N,).

    Raises:
        DamageError: when the content is anything else.
    """
    keys = (*PROOF_ARRAYS, "verdict")
    rows = dict(zip(keys, unpack(content, "<f8", len(keys) * size).reshape(len(keys), size), strict=True))
    if not np.isin(rows["verdict"], range(len(VERDICTS))).all() or any((row < 0).any() for row in rows.values()):
        raise DamageError("a row of a proof")
    return rows | {"verdict": rows["verdict"].astype(np.int64)}
