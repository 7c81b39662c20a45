"""Figures 1 and 2: the paper's running example, four machines and five calibrations, split into N_D and N_E."""

from __future__ import annotations

import argparse

import numpy as np
from benches.rpca import traces

from gavotte.collective import norm_of, plan
from gavotte.formats.history import Floats
from gavotte.model import find_constant

RACK = (0, 0, 1, 1)
NEAR_S, FAR_S = 1.0, 3.0
"""Seconds for a message within a rack and between racks; the paper only draws its own numbers."""
CALIBRATIONS = 5
NOISE = 0.03


def measured(seed: int) -> Floats:
    """(5, 4, 4) seconds a message: the constant with a little noise, and each calibration with one slow-down."""
    rng = np.random.default_rng(seed)
    rack = np.array(RACK)
    truth = np.where(rack[:, None] == rack[None, :], NEAR_S, FAR_S)
    values = truth * np.exp(rng.normal(0, NOISE, (CALIBRATIONS, 4, 4)))
    off = [(i, j) for i in range(4) for j in range(4) if i != j]
    for row, pair in enumerate(rng.permutation(len(off))[:CALIBRATIONS]):
        values[row][off[pair]] *= 1 + rng.exponential(2.0)
    return values


def rows(title: str, values: Floats) -> str:
    """Print a TP-matrix: one row a calibration, one column a link."""
    off = ~np.eye(4, dtype=bool)
    lines = [" ".join(f"{value:>6.2f}" for value in row[off]) for row in values]
    return "\n".join([f"    {title}", *(f"      {line}" for line in lines)])


def figure(arguments: argparse.Namespace) -> None:
    """Print N_A = N_D + N_E, and the trees that FNF builds from N_D and from the last calibration."""
    values = measured(arguments.seed)
    history = traces.history_of(values / 8e6)
    constant = find_constant(history, method="rpca")
    lasting = np.where(np.eye(4, dtype=bool), 0.0, 8 * 8e6 / constant.rate_bps)
    kept = np.broadcast_to(lasting, values.shape)
    pairs = " ".join(f"{f'{i + 1}>{j + 1}':>6}" for i in range(4) for j in range(4) if i != j)
    print(
        f"\nFig. 2: four machines in two racks, five calibrations, a slow-down in each, seed {arguments.seed}; seconds a message\n      {pairs}"
    )
    print(rows("N_A, measured", values))
    print(rows("N_D, the lasting part (each row alike)", kept[:1]))
    print(rows("N_E = N_A - N_D", values - kept))
    print(f"    Norm(N_E) at a tolerance of 10 %: {norm_of(values / 8e6):.2f}")
    for name, seen in (("N_D", kept[:1]), ("the last calibration", values[-1:])):
        tree = plan(
            traces.network_of(seen[0] / 8e6), "broadcast", size_bytes=8_000_000, root="h0", algorithm="fnf"
        ).stages[0]
        edges = ", ".join(f"{tree.parent[rank] + 1}>{rank + 1}" for rank in tree.order[1:])
        print(f"    Fig. 1: FNF on {name}: {edges}")
