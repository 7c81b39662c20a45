"""Collectives counted by the shim, compared with the packets between the hosts of a lab, with one rank a host."""

from __future__ import annotations

from pathlib import Path

import pytest
from benches import mpi
from benches.profile.collectives import HELD, run
from benches.topologies import star

from gavotte import lab

HOSTS = ["h0", "h1", "h2", "h3", "h4"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.parametrize("library", mpi.IMPLEMENTATIONS)
@pytest.mark.rare
def test_pairs_have_the_bytes_of_the_wire(library: str, tmp_path: Path) -> None:
    if not mpi.available(library):
        pytest.skip(f"{library} is not installed")
    with lab.session(star(["1gbit"] * len(HOSTS))) as session:
        mpi.loss_based(session, HOSTS)
        for operation in ("allgather", "gather", "scatter", "allreduce", "reduce_scatter"):
            seen = run(session, HOSTS, library, operation, 262_144, tmp_path)
            assert seen.captured.sum() > 1_000_000
            assert seen.held >= HELD, operation
            assert seen.estimated == (library == "mpich"), operation
            # Open MPI's counts are exact; MPICH's estimates put few bytes on wrong pairs.
            assert seen.misplaced(seen.wire[0]) < (0.1 if library == "mpich" else 0.01), operation
