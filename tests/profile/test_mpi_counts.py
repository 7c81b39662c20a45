"""The counting shim under real MPI libraries, compared with Open MPI's own monitoring."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.profile.test_fuzz import mutate

from gavotte.collective import build_shim
from gavotte.errors import FormatError, GavotteError
from gavotte.profile import Count, Traffic, profile

MPICH = Path(sys.executable).parents[1] / "mpich" / "bin"
JOB = """
from mpi4py import MPI
import numpy as np
c = MPI.COMM_WORLD
r, n = c.rank, c.size
out = [c.Isend(np.zeros(10_000 * (r + 1) * (t + 1), dtype="b"), dest=t) for t in range(n) if t != r]
for s in range(n):
    if s != r:
        c.Recv(np.empty(10_000 * (s + 1) * (r + 1), dtype="b"), source=s)
MPI.Request.Waitall(out)
c.Alltoall(np.zeros(500 * n, dtype="b"), np.empty(500 * n, dtype="b"))
half = c.Split(r % 2)
half.Bcast(np.zeros(7_000, dtype="b"), root=0)
again = c.Send_init(np.zeros(3, dtype="b"), dest=(r + 1) % n)
for _ in range(4):
    again.Start()
    c.Recv(np.empty(3, dtype="b"), source=(r - 1) % n)
    again.Wait()
again.Free()
c.Allreduce(np.ones(1000), np.empty(1000))
"""


def counted(*paths: Path) -> Traffic:
    return profile("pmpi", list(paths), name="job", min_bytes=0).traffic


def expected(source: int, target: int) -> int:
    """Bytes that the job certainly sends: messages, its part of the alltoall, persistent messages."""
    return 10_000 * (source + 1) * (target + 1) + 500 + 12 * (target == (source + 1) % 4)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpicc") is None, reason="mpicc is not installed")
def test_it_counts_what_a_program_sends(tmp_path: Path) -> None:
    build_shim(tmp_path / "count.so", counting=True)
    (tmp_path / "job.py").write_text(JOB)
    words = ["mpirun", "-n", "4", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "tcp,self"]
    words += ["-x", f"LD_PRELOAD={tmp_path}/count.so", "-x", f"GAVOTTE_COUNTS={tmp_path}/job"]
    words += ["--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"]
    words += ["--mca", "pml_monitoring_filename", str(tmp_path / "mon"), sys.executable, str(tmp_path / "job.py")]
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": str(tmp_path)}
    ran = subprocess.run(words, capture_output=True, text=True, env=os.environ | root, timeout=100)
    assert ran.returncode == 0, ran.stderr
    result = counted(*sorted(tmp_path.glob("job.*.pmpi")))
    for source in range(4):
        for target in range(4):
            if source != target:
                assert result.counts[f"rank{source}", f"rank{target}"].low_bytes == expected(source, target)
    # A broadcast in each half, from its first rank; an allreduce as a ring.
    assert result.seen["shaped_bytes"] == 2 * 7_000 + 4 * 2 * 3 * 8000 // 4
    assert result.counts["rank0", "rank2"].bytes == expected(0, 2) + 7_000
    assert (result.seen["missing_ranks"], result.seen["uncounted_bytes"]) == (0, 0)
    other = profile("ompi", sorted(tmp_path.glob("mon.*.prof")), name="job", min_bytes=0).traffic
    for pair, count in other.counts.items():
        assert count.bytes <= 1.01 * result.counts[pair].high_bytes + 200, "the library shapes collectives as it likes"


@pytest.mark.slow
@pytest.mark.skipif(not (MPICH / "mpicc").exists(), reason="MPICH is not installed")
def test_it_counts_under_mpich(tmp_path: Path) -> None:
    source = tmp_path / "job.c"
    source.write_text(
        "#include <mpi.h>\nint main(int n, char **v) { char b[9000] = {0}, got[64]; int r; MPI_Win w; MPI_Init(&n, &v);"
        "MPI_Comm_rank(MPI_COMM_WORLD, &r); MPI_Sendrecv_replace(b, 9000, MPI_CHAR, 1 - r, 0, 1 - r, 0, MPI_COMM_WORLD,"
        "MPI_STATUS_IGNORE); MPI_Win_create(b, 100, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &w); MPI_Win_fence(0, w);"
        "MPI_Get(got, 64, MPI_CHAR, 1 - r, 0, 64, MPI_CHAR, w); MPI_Win_fence(0, w); MPI_Win_free(&w);"
        "MPI_Finalize(); }"
    )
    build_shim(tmp_path / "count.so", mpicc=str(MPICH / "mpicc"), counting=True)
    subprocess.run([MPICH / "mpicc", "-o", tmp_path / "job", source], check=True, timeout=100)
    preload = os.environ | {"LD_PRELOAD": str(tmp_path / "count.so"), "GAVOTTE_COUNTS": str(tmp_path / "job")}
    subprocess.run([MPICH / "mpiexec", "-n", "2", tmp_path / "job"], check=True, timeout=100, env=preload)
    result = counted(*sorted(tmp_path.glob("job.*.pmpi")))
    assert result.counts == {("rank0", "rank1"): Count.exact(9064), ("rank1", "rank0"): Count.exact(9064)}


FILE = """gavotte/pmpi/1 rank {rank} of 3
loose 500
uncounted 0
{other} 1000 200 30
end
"""


def write(folder: Path) -> list[Path]:
    for rank in range(3):
        (folder / f"job.{rank}.pmpi").write_text(FILE.format(rank=rank, other=(rank + 1) % 3))
    return sorted(folder.glob("job.*.pmpi"))


def test_files_become_intervals(tmp_path: Path) -> None:
    result = counted(*write(tmp_path))
    assert result.counts["rank0", "rank1"] == Count(1200, 1000, 1700)
    assert result.counts["rank1", "rank0"] == Count.exact(30)
    assert counted(*write(tmp_path)[:2]).seen["missing_ranks"] == 1


def test_damage_is_one_clear_line(tmp_path: Path) -> None:
    paths = write(tmp_path)
    for text, message in (
        ("hello", "is not a count that the shim wrote"),
        (FILE.format(rank=7, other=1), "line 1: is rank 7 of 3"),
        (FILE.format(rank=0, other=9), "line 4: is not `rank exact shaped brought`"),
        (FILE.format(rank=0, other=1).removesuffix("end\n"), "is cut short"),
    ):
        paths[0].write_text(text)
        with pytest.raises(FormatError, match=message):
            counted(*paths)
    write(tmp_path)
    with pytest.raises(FormatError, match="is rank 1's, as"):
        counted(paths[1], paths[1])


@examples(100)
@given(data=st.data())
def test_mutated_files(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "fuzz").write_bytes(mutate(data, FILE.format(rank=0, other=1).encode()))
    try:
        assert counted(tmp_path / "fuzz").bytes > 0
    except GavotteError as error:
        assert "\n" not in str(error)
