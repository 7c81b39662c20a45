"""The counting shim under real MPI libraries: programs in C, Python and Fortran, compared with what they send."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.building import Builds
from tests.examples import examples
from tests.profile.test_fuzz import mutate
from tests.shell import gavotte

from gavotte.collective import build_shim
from gavotte.errors import FormatError, GavotteError
from gavotte.profile import Count, Request, Traffic, profile, read_traffic

PROGRAMS = Path(__file__).parent / "programs"
MPICH = Path(sys.executable).parents[1] / "mpich" / "bin"
ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
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
c.Allreduce(np.ones(1000), np.empty(1000))
c.Gather(np.ones(3000), np.empty(3000 * n), root=1)
c.Allgather(np.ones(500), np.empty(500 * n))
"""

needs_openmpi = pytest.mark.skipif(shutil.which("mpicc.openmpi") is None, reason="Open MPI is not installed")
needs_mpich = pytest.mark.skipif(not (MPICH / "mpicc").exists(), reason="MPICH is not installed")
needs_fortran = pytest.mark.skipif(
    shutil.which("gfortran") is None or shutil.which("mpifort.openmpi") is None, reason="gfortran is not installed"
)
LIBRARIES = [pytest.param("openmpi", marks=needs_openmpi), pytest.param("mpich", marks=needs_mpich)]


def counted(*paths: Path, collectives: str = "wire") -> Traffic:
    return read_traffic("pmpi", Request(list(paths), collectives=collectives))


def compiler(library: str) -> str:
    return str(MPICH / "mpicc") if library == "mpich" else "mpicc.openmpi"


def counter(builds: Builds, library: str) -> Path:
    """Return the shim that counts."""
    return builds.once(f"count-{library}.so", lambda path: build_shim(path, mpicc=compiler(library), counting=True))


def run(
    builds: Builds,
    folder: Path,
    library: str,
    program: list[str | Path],
    settings: Mapping[str, str] | None = None,
) -> list[Path]:
    """Run a program with four ranks and the shim; return the ranks' files."""
    shim = counter(builds, library)
    own = {"LD_PRELOAD": str(shim), "GAVOTTE_COUNTS": str(folder / "job"), **(settings or {})}
    if library == "openmpi":
        line = ["mpirun.openmpi", "-n", "4", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "vader,tcp,self"]
        line += ["--mca", "btl_tcp_if_include", "lo"]
        line += [word for key, value in own.items() for word in ("-x", f"{key}={value}")]
    else:
        line = [str(MPICH / "mpiexec"), "-n", "4"]
        line += [word for key, value in own.items() for word in ("-genv", key, value)]
    ran = subprocess.run(
        [*line, *map(str, program)],
        capture_output=True,
        text=True,
        env=os.environ | ROOT | {"TMPDIR": str(folder)},
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return sorted(folder.glob("job.*.pmpi"))


def built(builds: Builds, compiler: str, *words: str | Path) -> Path:
    """Return a program, or an object file, of these arguments of the compiler."""
    name = "-".join(re.sub(r"\W", "", Path(word).name) for word in (compiler, *words))
    return builds.once(name, lambda path: subprocess.run([compiler, "-o", path, *words], check=True, timeout=100))


def of_ranks(traffic: Traffic) -> dict[tuple[int, int], Count]:
    """Return the counts by numbers of ranks."""
    return {(int(s[4:]), int(t[4:])): count for (s, t), count in traffic.counts.items() if count.bytes}


def run_monitored(folder: Path, *program: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a program without the shim and with Open MPI's monitoring, whose files are `mon.*.prof`."""
    words = ["mpirun.openmpi", "-n", "4", "--oversubscribe", "--bind-to", "none", "--mca", "btl", "vader,tcp,self"]
    words += ["--mca", "btl_tcp_if_include", "lo"]
    words += ["--mca", "pml_monitoring_enable", "2", "--mca", "pml_monitoring_enable_output", "3"]
    words += ["--mca", "pml_monitoring_filename", str(folder / "mon")]
    environment = os.environ | ROOT | {"TMPDIR": str(folder)}
    return subprocess.run([*words, *program], capture_output=True, text=True, env=environment, timeout=100, check=False)


def monitored(folder: Path, *program: str | Path) -> Traffic:
    """Run a program again and return what Open MPI's monitoring counted."""
    ran = run_monitored(folder, *program)
    assert ran.returncode == 0, ran.stderr
    return profile("ompi", sorted(folder.glob("mon.*.prof")), name="job", min_bytes=0).traffic


def messages(source: int, target: int) -> int:
    """Bytes that the job certainly sends: messages, and its part of the alltoall."""
    return 10_000 * (source + 1) * (target + 1) + 500


@pytest.mark.slow
@needs_openmpi
def test_collectives_are_what_open_mpi_itself_counts(builds: Builds, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    files = run(builds, tmp_path, "openmpi", [sys.executable, tmp_path / "job.py"])
    result = counted(*files)
    truth = monitored(tmp_path, sys.executable, tmp_path / "job.py")
    assert (result.seen["missing_ranks"], result.seen["uncounted_bytes"], result.seen["estimated"]) == (0, 0, False)
    assert result.warnings == []
    for pair, count in truth.counts.items():
        # Both count the agreement on a communicator's number and a few barriers, of less than 1 kB.
        assert abs(count.bytes - result.counts[pair].bytes) < 1000, pair
        assert result.counts[pair] == Count.exact(result.counts[pair].bytes)
    # The gather goes through a tree here: no count by calls has it.
    called = counted(*files, collectives="call")
    share = 0.5 * sum(abs(called.counts[pair].bytes - count.bytes) for pair, count in truth.counts.items())
    assert share > 0.02 * truth.bytes


@pytest.mark.slow
@needs_openmpi
def test_calls_are_counted_as_they_state_their_bytes(builds: Builds, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    files = run(builds, tmp_path, "openmpi", [sys.executable, tmp_path / "job.py"])
    result = of_ranks(counted(*files, collectives="call"))
    for source in range(4):
        for target in range(4):
            ring = 2 * 3 * 8000 // 4 * (target == (source + 1) % 4)
            half = 7_000 * (source < 2 and target == source + 2)
            gather = 24_000 * (target == 1)
            if source != target:
                wanted = messages(source, target) + ring + half + gather + 4000
                assert result[source, target] == Count.exact(wanted), (source, target)


@pytest.mark.rare
@pytest.mark.slow
@pytest.mark.parametrize("library", ["openmpi", pytest.param("mpich", marks=needs_mpich)])
@needs_openmpi
def test_estimates_hold_what_the_library_sends(library: str, builds: Builds, tmp_path: Path) -> None:
    """Open MPI's own counts, with its monitoring hidden from the shim; MPICH has the same shapes and other shares."""
    (tmp_path / "job.py").write_text(JOB)
    files = run(
        builds,
        tmp_path,
        library,
        [sys.executable, tmp_path / "job.py"],
        {"GAVOTTE_WIRE": "0", "MPI4PY_MPIABI": library},
    )
    result = counted(*files)
    assert result.seen["estimated"]
    assert "estimates, see the intervals" in result.warnings[0]
    assert len(result.counts) == 12
    if library == "openmpi":
        truth = monitored(tmp_path, sys.executable, tmp_path / "job.py")
        for pair, count in truth.counts.items():
            assert result.counts[pair].low_bytes <= count.bytes <= result.counts[pair].high_bytes + 1000, pair


CALLS = {
    "persistent": {(r, (r + 1) % 4): 8 * 1050 for r in range(4)},
    "neighbours": {(r, (r + step) % 4): {1: 500, 2: 700, 3: 500}[step] for r in range(4) for step in (1, 2, 3)},
    "across": {(r, r ^ 1): 300 for r in range(4)},
    "one-sided": {(r, (r + 1) % 4): 110 + 16 + 7 for r in range(4)},
}
CALLS["across"] = {pair: size + 90 * (pair[0] == 0) for pair, size in CALLS["across"].items()} | {(0, 3): 90}
CALLS["one-sided"] |= {((r + 1) % 4, r): 60 for r in range(4)}
for _target in (1, 2, 3):
    CALLS["one-sided"][0, _target] = CALLS["one-sided"].get((0, _target), 0) + 200


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("kind", CALLS)
def test_no_kind_of_call_is_missed(library: str, kind: str, builds: Builds, tmp_path: Path) -> None:
    program = built(builds, compiler(library), PROGRAMS / "calls.c")
    files = run(builds, tmp_path, library, [program, kind])
    result = counted(*files, collectives="call")
    assert of_ranks(result) == {pair: Count.exact(size) for pair, size in CALLS[kind].items()}
    assert result.seen["uncounted_bytes"] == 0
    exact = {"persistent": 4 * 8 * 1050, "neighbours": 0, "across": 4 * 300, "one-sided": 4 * (110 + 16 + 7 + 60)}
    wire = counted(*files)
    assert wire.seen["message_bytes"] == exact[kind]
    # Collectives among neighbours have one shape in both libraries.
    assert wire.seen["estimated"] == (library == "mpich" and kind in ("across", "one-sided"))


@pytest.mark.slow
@needs_openmpi
def test_a_crash_in_open_mpis_monitoring_is_named(builds: Builds, tmp_path: Path) -> None:
    """Its counter of collectives takes each neighbourhood for a grid; nothing is left of such a job.

    It takes half of a pointer for the number of dimensions. Without random addresses this is never below 0, as which no
    dimension would be looked at.
    """
    program = built(builds, compiler("openmpi"), PROGRAMS / "calls.c")
    crashed = run_monitored(tmp_path, "setarch", "-R", program, "neighbours")
    assert crashed.returncode != 0
    assert "mca_coll_monitoring.so" in crashed.stderr
    assert list(tmp_path.glob("mon.*.prof")) == []
    refused = gavotte("profile", "ompi", tmp_path / "mon.*.prof")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.count("\n") == 1
    assert "no such file; check the path; if a rank crashed in mca_coll_monitoring.so, " in refused.stderr
    assert refused.stderr.endswith("count this program by `gavotte shim --count` and `gavotte profile pmpi`\n")


def around() -> dict[tuple[int, int], Count]:
    """Return what the subroutine of ring.F90 sends, as its calls state it."""
    sizes = {(s, t): 80 + 6 + 500 * (s == 0) for s in range(4) for t in range(4) if s != t}
    for rank in range(4):
        sizes[rank, (rank + 1) % 4] += 1000 + 2000 + 300 + 3 * 40 + 2 * 800 // 4 * 3
    return {pair: Count.exact(size) for pair, size in sizes.items()}


@pytest.mark.slow
@needs_fortran
@pytest.mark.parametrize("words", [(), ("-DF08",)])
def test_fortran_is_counted(words: tuple[str, ...], builds: Builds, tmp_path: Path) -> None:
    program = built(builds, "mpifort.openmpi", *words, PROGRAMS / "ring.F90")
    files = run(builds, tmp_path, "openmpi", [program])
    assert len(files) == 4
    assert of_ranks(counted(*files, collectives="call")) == around()
    whole = counted(*files)
    assert whole.seen["message_bytes"] == 4 * (1000 + 2000 + 300 + 120)
    assert not whole.seen["estimated"]


@pytest.mark.slow
@needs_fortran
@pytest.mark.parametrize("words", [(), ("-DF08",)])
def test_a_program_in_c_with_a_part_in_fortran_is_counted(
    words: tuple[str, ...], builds: Builds, tmp_path: Path
) -> None:
    part = built(builds, "mpifort.openmpi", "-DSUBROUTINE", *words, "-c", PROGRAMS / "ring.F90")
    main = built(builds, "mpicc.openmpi", "-c", PROGRAMS / "main.c")
    objects = [(tmp_path / name, path) for name, path in (("main.o", main), ("ring.o", part))]
    for link, path in objects:
        link.symlink_to(path)
    program = tmp_path / "program"
    subprocess.run(["mpifort.openmpi", "-o", program, *(link for link, _ in objects)], check=True, timeout=100)
    result = of_ranks(counted(*run(builds, tmp_path, "openmpi", [program]), collectives="call"))
    wanted = around()
    assert result == wanted | {(0, 1): Count.exact(wanted[0, 1].bytes + 1)}


@pytest.mark.slow
@needs_openmpi
def test_a_rank_that_leaves_early_is_named(builds: Builds, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "import mpi4py\nmpi4py.rc.finalize = False\nfrom mpi4py import MPI\nimport numpy as np\nc = MPI.COMM_WORLD\n"
        "c.Sendrecv(np.zeros(9000, dtype='b'), dest=(c.rank + 1) % c.size, recvbuf=np.empty(9000, dtype='b'))\n"
        "c.Barrier()\n"
    )
    own = {"LD_PRELOAD": str(counter(builds, "openmpi")), "GAVOTTE_COUNTS": str(tmp_path / "job")}
    environment = os.environ | ROOT | own
    subprocess.run([sys.executable, tmp_path / "job.py"], env=environment, timeout=100, check=False)
    text = (tmp_path / "job.0.pmpi").read_text()
    assert "unfinished 1\n" in text
    (tmp_path / "job.0.pmpi").write_text(text.replace("of 1", "of 2").replace("\n0 9000", "\n1 9000"))
    warnings = counted(tmp_path / "job.0.pmpi").warnings
    assert [line.split(" ", 1)[1][:26] for line in warnings[:2]] == [
        "ranks have no file among t",
        "ranks ended without MPI_Fi",
    ]


SPAWNING = """
import sys
from mpi4py import MPI
import numpy as np
parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    parts = MPI.COMM_SELF.Spawn(sys.executable, args=[__file__], maxprocs=1)
    parts.Send(np.zeros(5000, dtype="b"), dest=0)
    parts.Disconnect()
    c = MPI.COMM_WORLD
    c.Sendrecv(np.zeros(700, dtype="b"), dest=(c.rank + 1) % c.size, recvbuf=np.empty(700, dtype="b"))
else:
    parent.Recv(np.empty(5000, dtype="b"), source=0)
    parent.Disconnect()
"""


@pytest.mark.slow
@needs_openmpi
def test_spawned_programs_have_files_of_their_own(builds: Builds, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SPAWNING)
    files = run(builds, tmp_path, "openmpi", [sys.executable, tmp_path / "job.py"])
    result = counted(*files)
    assert (result.seen["message_bytes"], result.seen["uncounted_bytes"]) == (4 * 700, 4 * 5000)
    assert "20000 bytes went to ranks outside MPI_COMM_WORLD" in result.warnings[0]
    assert len(list(tmp_path.glob("job-spawned-*.0.pmpi"))) == 4


FILE = """gavotte/pmpi/2 rank {rank} of 3
wire estimated
uncounted 0
{other} 1000 250 50 200 500 0 30
end
"""


def write(folder: Path, text: str = FILE) -> list[Path]:
    for rank in range(3):
        (folder / f"job.{rank}.pmpi").write_text(text.format(rank=rank, other=(rank + 1) % 3))
    return sorted(folder.glob("job.*.pmpi"))


def test_files_become_intervals(tmp_path: Path) -> None:
    result = counted(*write(tmp_path))
    assert result.counts["rank0", "rank1"] == Count(1200, 1050, 1500)
    assert result.counts["rank1", "rank0"] == Count.exact(30)
    assert counted(*write(tmp_path)[:2]).seen["missing_ranks"] == 1
    by_call = counted(*write(tmp_path), collectives="call")
    assert by_call.counts["rank0", "rank1"] == Count.exact(1250)
    assert by_call.warnings == []


def test_bytes_that_the_library_counted_are_exact_if_all_ranks_have_them(tmp_path: Path) -> None:
    text = FILE.replace("estimated", "counted").replace("500 0 30", "500 333 0")
    result = counted(*write(tmp_path, text))
    assert result.counts["rank0", "rank1"] == Count.exact(1333)
    assert (result.seen["collective_bytes"], result.seen["estimated"]) == (999, False)
    (tmp_path / "job.1.pmpi").write_text(FILE.format(rank=1, other=2))
    assert counted(*sorted(tmp_path.glob("job.*.pmpi"))).seen["estimated"]


def test_collectives_with_a_wire_of_their_own_are_estimates(tmp_path: Path) -> None:
    text = FILE.replace("estimated", "counted").replace("500 0 30", "500 9 0")
    result = counted(*write(tmp_path, text))
    assert result.seen["estimated"]
    assert result.counts["rank0", "rank1"] == Count(1200, 1050, 1500)


def test_bytes_to_other_worlds_are_a_warning(tmp_path: Path) -> None:
    files = write(tmp_path, FILE.replace("uncounted 0", "uncounted 5000"))
    done = gavotte("profile", "pmpi", *files, "--collectives", "call", "--json")
    assert done.returncode == 0
    assert "15000 bytes went to ranks outside MPI_COMM_WORLD" in done.stderr
    wrong = gavotte("profile", "pmpi", *files, "--collectives", "star")
    assert "`star` is no way to attribute collectives; use wire or call" in wrong.stderr


def test_damage_is_one_clear_line(tmp_path: Path) -> None:
    paths = write(tmp_path)
    for text, message in (
        ("hello", "is not a count that the shim wrote"),
        ("gavotte/pmpi/1 rank 0 of 3\nend\n", "is of an older library, which misses pairs"),
        (FILE.format(rank=7, other=1), "line 1: is rank 7 of 3"),
        (FILE.format(rank=0, other=9), "line 4: is not a rank and its seven counts"),
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
