"""Histories for the tests, and how two of them are compared."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from gavotte.formats.history import BY_TCP, PROOF_ARRAYS, VERDICTS, History, Proof
from gavotte.formats.parts.evidence import Evidence


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


def whole_world(hosts: tuple[str, ...] = ("a", "b", "c"), times: tuple[float, ...] = (1.5, 2.5)) -> History:
    """A History with a value in every field."""
    rng = np.random.default_rng(1)
    shape = (len(times), len(hosts), len(hosts))
    together = Evidence(
        subject="out of rack-0",
        pairs=[(hosts[0], hosts[1]), (hosts[1], hosts[0])],
        alone_bps=[8e6, 9e6],
        together_bps=[4e6, 5e6],
        sum_bps=9e6,
        low_bps=8e6,
        high_bps=1e7,
        overlap_s=0.5,
        time_s=times[0],
        verdict="shared",
    )
    return replace(
        world(hosts, times, proven=True),
        mtu_bytes=rng.choice([0, 1280, 1500, 9000], shape[1:]),
        ipv6=rng.random(len(hosts)) < 0.5,
        by_tcp=rng.integers(0, len(BY_TCP), shape),
        several_Bps=np.where(rng.random(shape) < 0.5, np.nan, 1e9),
        connections=rng.integers(0, 64, shape),
        policed=rng.integers(0, 2, shape),
        unqueued=rng.integers(500, 1000, shape),
        unqueued_lost=rng.integers(0, 500, shape),
        sent_bytes=np.where(rng.random(shape) < 0.5, np.nan, 1e6),
        held_out=rng.integers(0, 2, size=shape[1:]),
        hop_addresses=rng.choice(["", "10.0.0.1", "fd00::1:2"], (*shape[1:], 3)),
        evidence=(together,),
    )


def same(left: History, right: History) -> None:
    """Asserts that two Histories are equal in all fields, to the last bit."""
    for field in fields(History):
        mine, others = getattr(left, field.name), getattr(right, field.name)
        if isinstance(mine, Proof) and isinstance(others, Proof):
            for key, array in vars(mine).items():
                np.testing.assert_array_equal(array, getattr(others, key), err_msg=key)
        else:
            assert type(mine) is type(others), field.name
            np.testing.assert_array_equal(mine, others, err_msg=field.name)
