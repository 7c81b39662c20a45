"""Histories for the tests, and how two of them are compared."""

from __future__ import annotations

import numpy as np

from gavotte.formats.history import PROOF_ARRAYS, VERDICTS, History, Proof


def world(
    hosts: tuple[str, ...] = ("a", "b", "c"),
    times: tuple[float, ...] = (1.5, 2.5),
    *,
    seed: int = 0,
    method: str = "choreo",
    missing: float = 0.2,
    proven: bool = False,
) -> History:
    """A History with random values, some of them not measured."""
    rng = np.random.default_rng(seed)
    shape = (len(times), len(hosts), len(hosts))
    beta = 1.25e7 * rng.lognormal(0, 1, shape)
    alpha = 1e-4 * rng.lognormal(0, 1, shape)
    for matrix in (alpha, beta):
        matrix[rng.random(shape) < missing] = np.nan
        matrix[:, range(len(hosts)), range(len(hosts))] = np.nan
    proof = Proof(
        **{key: np.where(np.isnan(beta), np.nan, rng.lognormal(0, 1, shape)) for key in PROOF_ARRAYS},
        verdict=np.where(np.isnan(beta), 0, rng.integers(0, len(VERDICTS), shape)),
    )
    hops = rng.integers(0, 7, shape[1:])
    np.fill_diagonal(hops, 0)
    return History(
        alpha_s=alpha,
        beta_Bps=beta,
        time_s=np.array(times),
        hosts=hosts,
        hops=hops.astype(np.int64),
        cpus=rng.integers(1, 9, len(hosts)) / 2,
        memory_bytes=rng.integers(0, 1 << 40, len(hosts)),
        method=method,
        proof=proof if proven else None,
    )


def same(left: History, right: History) -> None:
    """Asserts that two Histories are equal to the last bit."""
    assert left.hosts == right.hosts
    assert left.method == right.method
    for key in ("alpha_s", "beta_Bps", "time_s", "hops", "cpus", "memory_bytes"):
        np.testing.assert_array_equal(getattr(left, key), getattr(right, key), err_msg=key)
    assert (left.proof is None) == (right.proof is None)
    if left.proof is not None and right.proof is not None:
        for key, array in vars(left.proof).items():
            np.testing.assert_array_equal(array, getattr(right.proof, key), err_msg=key)
