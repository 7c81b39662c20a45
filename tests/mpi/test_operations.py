"""gavotte.mpi and the preloaded library in real MPI jobs across lab hosts, with Open MPI and MPICH."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from benches.mpi import IMPLEMENTATIONS, available, compiler, launch
from tests.builders import topology
from tests.collective.clouds import network

from gavotte import lab
from gavotte.collective import OPERATIONS, TreeSearch, build_shim, plan, read_library, shim_text
from gavotte.errors import FormatError, GavotteError, UnsupportedError
from gavotte.formats.collective import FORMAT, Collective, Operation, Stage, write_collective
from gavotte.formats.record import read_records

PROGRAM = Path(__file__).with_name("program.py")
RANKS = ["h0", "h3", "h2", "h1", "h0"]
"""Two share a host; unsorted."""
CASES = 5
CLOUD = topology([{"name": f"h{i}", "rate": "1gbit"} for i in range(4)])


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(CLOUD, agents=False) as session:
        yield session


def collectives(roots: list[str]) -> list[Collective]:
    """Trees for the four operations and some roots, a flat one too; with pieces that do not divide the data."""
    shapes: dict[Operation, str] = {"broadcast": "chain", "reduce": "search", "scatter": "search", "gather": "ecef"}
    net = network(4)
    return [
        plan(
            net,
            name,
            size_bytes=100_003,
            root=root,
            ranks=RANKS,
            algorithm=how,
            segments=7,
            search=TreeSearch(steps=500),
        )
        for name, algorithm in shapes.items()
        for root in roots
        for how in ["flat" if (name, root) == ("scatter", "h2") else algorithm]
    ]


def rings() -> list[Collective]:
    """A ring of all, one of three with two ranks attached to one member, a star, and trees, for different sizes."""
    items = []
    names: tuple[Operation, ...] = ("allgather", "allreduce")
    for name in names:
        items.append(plan(network(4), name, size_bytes=20_011, ranks=RANKS, algorithm="rank-ring"))
        items.append(plan(network(4), name, size_bytes=60_000, ranks=RANKS, algorithm="ecef", segments=3))
        for members, parent, size_bytes in ((3, [3, 0, 0, 3, 0], 400_009), (1, [3, 3, 3, 3, 3], 150_001)):
            stage = Stage(
                operation=name,
                bytes=size_bytes,
                segments=3,
                parent=parent,
                order=[3, 0, 2, 1, 4],
                ring=members,
                predicted_s=1.0,
            )
            items.append(
                Collective(
                    format=FORMAT,
                    operation=name,
                    hosts=RANKS,
                    bytes=size_bytes,
                    algorithm="ring",
                    stages=[stage],
                    predicted_s=1.0,
                )
            )
    return items


@pytest.mark.lab
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_gavotte_mpi_gives_what_the_library_gives(session: lab.Session, tmp_path: Path, implementation: str) -> None:
    if not available(implementation):
        pytest.skip(f"no {implementation}")
    paths = []
    alone = [each for each in rings() if len(each.stages) == 1]
    for number, collective in enumerate([*collectives(["h0", "h2"]), *alone]):
        paths.append(tmp_path / f"{number}.tree.json")
        write_collective(paths[-1], collective)
    program: list[str | Path] = [PROGRAM, "own", *paths, "5", str(CASES)]
    ran = launch(session, implementation, program, ranks=RANKS, scratch=tmp_path, timeout_s=100)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == f"{CASES} cases on 5 ranks of 4 hosts"


@pytest.mark.lab
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_an_unchanged_program_under_the_shim(session: lab.Session, tmp_path: Path, implementation: str) -> None:
    if not available(implementation):
        pytest.skip(f"no {implementation}")
    library, trees = tmp_path / "libgavotte-mpi.so", tmp_path / "trees.txt"
    build_shim(library, mpicc=compiler(implementation))
    trees.write_text(shim_text([*collectives(["h0", "h1", "h2"]), *rings()]))
    environment = {
        "LD_PRELOAD": str(library),
        "GAVOTTE_TREES": str(trees),
        "GAVOTTE_MIN_BYTES": "1000",
        "GAVOTTE_VERBOSE": "1",
        "GAVOTTE_OBSERVATIONS": str(tmp_path / "times.jsonl"),
    }
    program: list[str | Path] = [PROGRAM, "preload", "5", str(CASES)]
    ran = launch(
        session, implementation, program, ranks=RANKS, scratch=tmp_path, environment=environment, timeout_s=100
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == f"{CASES} cases on 5 ranks of 4 hosts"
    counts = {line.split()[1]: int(line.split()[2]) for line in ran.stderr.splitlines() if line.startswith("gavotte: ")}
    assert set(counts) == {"broadcast:", "reduce:", "scatter:", "gather:", "allgather:", "allreduce:"}
    assert all(count > 0 for count in counts.values()), counts
    operations: dict[object, list[dict[str, object]]] = {}
    for each in read_records(tmp_path / "times.jsonl"):
        assert 0 < each.value < 60
        assert each.labels["source"] != each.labels["target"]
        assert {each.labels["source"], each.labels["target"]} <= set(RANKS)
        operations.setdefault(each.labels["operation"], []).append(dict(each.labels))
    assert all(len(edges) == edges[0]["edges"] for edges in operations.values())
    # Each scatter and broadcast of the program, and the second half of those along two trees.
    assert 0 < len(operations) <= sum(counts.values())


@pytest.mark.lab
@pytest.mark.parametrize("implementation", IMPLEMENTATIONS)
def test_the_library_is_timed_and_keeps_what_it_does_best(
    session: lab.Session, tmp_path: Path, implementation: str
) -> None:
    if not available(implementation):
        pytest.skip(f"no {implementation}")
    times = tmp_path / "library.jsonl"
    asked = ["--root", "0", "2", "--bytes", "20000", "100003", "--repetitions", "2", "--ranks", ",".join(RANKS)]
    timed = launch(session, implementation, ["-m", "gavotte.mpi.timing", times, *asked], ranks=RANKS, scratch=tmp_path)
    assert timed.returncode == 0, timed.stderr
    assert all(0 < each.value < 60 for each in read_library(times))
    records = [each.model_copy(update={"value": 1e-9}) for each in read_library(times)]  # faster than any tree
    assert len(records) == 2 * (2 * 4 + 2)
    search = TreeSearch(library=records)
    planned = [
        plan(network(4), name, size_bytes=100_003, root=root, ranks=RANKS, search=search)
        for name in OPERATIONS
        for root in ("h0", "h2")
    ]
    assert {each.algorithm for each in planned} == {"library"}
    planned.append(plan(network(4), "broadcast", size_bytes=100_003, root="h1", ranks=RANKS, search=search))
    assert planned[-1].algorithm != "library", "this root was not timed"
    library, trees = tmp_path / "libgavotte-mpi.so", tmp_path / "trees.txt"
    build_shim(library, mpicc=compiler(implementation))
    trees.write_text(shim_text(planned))
    environment = {
        "LD_PRELOAD": str(library),
        "GAVOTTE_TREES": str(trees),
        "GAVOTTE_MIN_BYTES": "1000",
        "GAVOTTE_VERBOSE": "1",
    }
    program: list[str | Path] = [PROGRAM, "preload", "5", str(CASES)]
    ran = launch(
        session, implementation, program, ranks=RANKS, scratch=tmp_path, environment=environment, timeout_s=100
    )
    assert ran.returncode == 0, ran.stderr
    counts = {line.split()[1]: int(line.split()[2]) for line in ran.stderr.splitlines() if line.startswith("gavotte: ")}
    assert counts["scatter:"] == counts["allgather:"] == 0, "the library does these best"


@pytest.mark.lab
def test_trees_for_other_ranks_are_told_and_not_used(session: lab.Session, tmp_path: Path) -> None:
    if not available("openmpi"):
        pytest.skip("no Open MPI")
    library, trees = tmp_path / "libgavotte-mpi.so", tmp_path / "trees.txt"
    build_shim(library, mpicc=compiler("openmpi"))
    trees.write_text(shim_text([plan(network(4), "broadcast", size_bytes=1 << 20)]))
    environment = {"LD_PRELOAD": str(library), "GAVOTTE_TREES": str(trees)}
    program: list[str | Path] = [PROGRAM, "preload", "5", "1"]
    ran = launch(session, "openmpi", program, ranks=RANKS, scratch=tmp_path, environment=environment, timeout_s=60)
    assert ran.returncode == 0, ran.stderr
    assert "no trees are used: GAVOTTE_TREES is for another number of ranks" in ran.stderr


def test_compilers_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match='`mpicc "` is not installed'):
        build_shim(tmp_path / "x.so", mpicc='mpicc "')
    with pytest.raises(UnsupportedError, match="`no-such-mpicc` is not installed"):
        build_shim(tmp_path / "x.so", mpicc="no-such-mpicc")
    with pytest.raises(GavotteError, match="failed"):
        build_shim(tmp_path / "x.so", mpicc="cc -DMPI_VERSION=3 -include /nonexistent")
    with pytest.raises(GavotteError, match="no such folder"):
        build_shim(tmp_path / "none" / "x.so")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_shim_is_written_through_a_pipe_and_does_not_replace_it(tmp_path: Path) -> None:
    if not available("openmpi"):
        pytest.skip("no Open MPI")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["head", "-c", "4", pipe], stdout=subprocess.PIPE) as reader:
        assert reader.stdout is not None
        with suppress(FormatError):  # the reader leaves after four bytes
            build_shim(pipe, mpicc=compiler("openmpi"))
        assert reader.stdout.read() == b"\x7fELF"
    assert pipe.is_fifo()
