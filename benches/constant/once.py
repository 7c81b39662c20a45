"""Runs one estimator on one matrix, alone in its process, so that its peak memory is its own. Prints JSON."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benches.constant.cases import NOTES, series

from gavotte.formats.history import Floats
from gavotte.model.estimators import ESTIMATORS
from gavotte.model.moved import cut


def pyrpca_constant(times: Floats) -> Floats:
    """The peer: inexact ALM with numpy's SVD, with the same input as ours: times over the medians of their columns."""
    import pyrpca

    size = times.shape[1]
    flat = times[:, ~np.eye(size, dtype=bool)]
    scale = np.nanmedian(flat, axis=0)
    low_rank, _ = pyrpca.rpca_pcp_ialm(flat / scale, sparsity_factor=1 / np.sqrt(flat.shape[1]), verbose=False)
    left, singular, right = np.linalg.svd(low_rank, full_matrices=False)
    square = np.full((size, size), np.nan)
    square[~np.eye(size, dtype=bool)] = singular[0] * left[:, 0].mean() * right[0] * scale
    return square


def methods() -> dict[str, Callable[[Floats], Floats]]:
    """Ours and the peer."""

    def ours(name: str) -> Callable[[Floats], Floats]:
        return lambda times: ESTIMATORS[name](times).constant

    ours_all = {name: ours(name) for name in ESTIMATORS}
    return ours_all | {
        "cut+mode": lambda times: ESTIMATORS["mode"](cut(times).times).constant,
        "pyrpca": pyrpca_constant,
    }


def off(result: Floats, truth: Floats) -> float:
    """Return the root mean square of relative errors, the common scale removed."""
    ratio = (result / truth)[np.isfinite(truth) & np.isfinite(result)]
    return float(np.sqrt(np.mean((ratio / np.median(ratio) - 1) ** 2)))


def _resident_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def main() -> None:
    """`once METHOD SIZE SEED`."""
    method, size, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    case = next(case for case in NOTES if case.name == "p=.10")
    cloud, times, _ = series(case, size, 10, np.random.default_rng(seed))
    run = methods()[method]
    run(times[:, :8, :8].copy())  # libraries are loaded and threads exist
    # The matrix drawn above may have needed more memory than the estimator will.
    Path("/proc/self/clear_refs").write_text("5")
    before_mb, cpu, wall = _resident_mb(), time.process_time(), time.perf_counter()
    result = run(times)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    high = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    peak_mb = int(high.split()[1]) * 1024 / 1e6 - before_mb
    print(json.dumps({"wall_s": wall, "cpu_s": cpu, "peak_mb": peak_mb, "rms": off(result, cloud.truth_s)}))


if __name__ == "__main__":
    main()
