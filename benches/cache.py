"""Share of a new version's bytes that a cache of the old one has: fixed blocks, and cuts that follow the content.

    make bench-cache [ARGS="--mb 32 --record docs/results/data"]

Fixed blocks are those of `pull` (256 KiB). Content-defined cuts are where a rolling hash of 64 bytes (Gear) has 18 zero
bits. Chunks have some 256 KiB, at least a quarter of that and at most four times as much. Changes:

- tensors: one in fifty regions of 1 MB is other data, as after fine-tuning some layers;
- appended: 5 % more at the end;
- inserted: 100 bytes at the start;
- archive: one of 200 files of a tar archive is 10 % longer, the others are the same;
- compressed: the archive of before and after, as gzip writes it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benches.machine import machine
from benches.recorded import write_figure

from gavotte.transfer.caching import BLOCK_BYTES

FILES = 200
MASK = np.uint64(BLOCK_BYTES - 1) << np.uint64(40)


def fixed(content: bytes) -> list[bytes]:
    """Return blocks of one size."""
    return [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]


def by_content(content: bytes) -> list[bytes]:
    """Return chunks whose ends depend on the bytes before them."""
    gear = np.random.default_rng(0).integers(0, 1 << 64, 256, dtype=np.uint64)
    values = gear[np.frombuffer(content, np.uint8)]
    rolling = np.zeros_like(values)
    for back in range(64):
        rolling[back:] += values[: len(values) - back] << np.uint64(back)
    ends = np.flatnonzero((rolling & MASK) == 0) + 1
    chunks, start = [], 0
    while start < len(content):
        least, most = start + BLOCK_BYTES // 4, start + 4 * BLOCK_BYTES
        at = np.searchsorted(ends, least)
        end = min(int(ends[at]) if at < len(ends) else most, most, len(content))
        chunks.append(content[start:end])
        start = end
    return chunks


def shared(old: bytes, new: bytes, cut: Callable[[bytes], list[bytes]]) -> float:
    """Return the share of the new version's bytes in chunks that the old one has."""
    known = {hashlib.blake2b(chunk).digest() for chunk in cut(old)}
    return sum(len(chunk) for chunk in cut(new) if hashlib.blake2b(chunk).digest() in known) / len(new)


def archive(files: list[bytes]) -> bytes:
    """Return a tar archive."""
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for number, content in enumerate(files):
            about = tarfile.TarInfo(f"file-{number}")
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return written.getvalue()


def versions(size: int, random: np.random.Generator) -> dict[str, tuple[bytes, bytes]]:
    """Return an old and a new version for each kind of change."""
    old = random.bytes(size)
    tensors = bytearray(old)
    regions = size // 1_000_000
    for region in random.choice(regions, max(1, regions // 50), replace=False):
        tensors[region * 1_000_000 : (region + 1) * 1_000_000] = random.bytes(1_000_000)
    # Half of each file repeats, so that compression has something to do.
    half = size // FILES // 2
    files = [random.bytes(half) + bytes(half) for _ in range(FILES)]
    longer = [*files]
    longer[FILES // 3] += random.bytes(half // 5)
    before, after = archive(files), archive(longer)
    return {
        "tensors": (old, bytes(tensors)),
        "appended": (old, old + random.bytes(size // 20)),
        "inserted": (old, random.bytes(100) + old),
        "archive": (before, after),
        "compressed": (gzip.compress(before, 1, mtime=0), gzip.compress(after, 1, mtime=0)),
    }


def main() -> None:
    """Print one row for each change."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path, help="folder to write the numbers to, as docs/results has them")
    given = parser.parse_args()
    print(f"{machine()}; seed {given.seed}, 1 object of {given.mb} MB")
    columns = ["change", "fixed blocks, %", "cuts by content, %"]
    rows = []
    for name, (old, new) in versions(given.mb * 1_000_000, np.random.default_rng(given.seed)).items():
        rows.append([name, *(f"{100 * shared(old, new, cut):.1f}" for cut in (fixed, by_content))])
        print("  ".join(rows[-1]), flush=True)
    if given.record:
        write_figure(
            given.record / "cache-blocks.json",
            title="Bytes of a new version that a cache has",
            command=f'make bench-cache ARGS="--mb {given.mb}"',
            seed=str(given.seed),
            samples=f"1 object of {given.mb} MB each",
            plot={"kind": "bars", "columns": [1, 2], "unit": "% of the bytes"},
            columns=columns,
            rows=rows,
        )


if __name__ == "__main__":
    main()
