"""The preloaded library tunes itself in real MPI jobs across lab hosts, with Open MPI and MPICH."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from benches.mpi import IMPLEMENTATIONS, available, compiler, launch, launcher
from tests.builders import topology
from tests.building import Builds
from tests.collective.clouds import network

from gavotte import lab
from gavotte.collective import build_shim, plan, shim_text

pytestmark = pytest.mark.lab

PROGRAM = Path(__file__).with_name("tuning_program.py")
RANKS = ["h0", "h3", "h2", "h1", "h0"]
"""Two share a host; unsorted."""
CLOUD = topology([{"name": f"h{i}", "rate": "1gbit"} for i in range(4)])
SLOW = topology([{"name": f"s{i}", "egress": "8mbit" if i == 0 else "80mbit", "burst": "8kb"} for i in range(6)])
"""The root is slow, and its children in a binomial tree get the message one after the other."""
LINE = re.compile(r"gavotte: (\w+) of (\d+) bytes on (\d+) ranks(?:, root (\d+))?: (\d+) times, (.*), kept: (.*) \(")


@dataclass(frozen=True)
class Tuned:
    """One line that the library prints at the end.

    Attributes:
        operation: the operation.
        ranks: number of ranks of the communicator.
        root: the root; None = the operation has none.
        times: number of operations.
        tried: the ways that were timed.
        kept: the way that was kept.
    """

    operation: str
    ranks: int
    root: int | None
    times: int
    tried: frozenset[str]
    kept: str


def tuned(message: str) -> list[Tuned]:
    """Return what the library has printed."""
    lines = []
    for operation, _, ranks, root, times, tried, kept in LINE.findall(message):
        ways = frozenset(re.sub(r" \d+ us$", "", each) for each in tried.split(", "))
        lines.append(Tuned(operation, int(ranks), int(root) if root else None, int(times), ways, kept))
    return lines


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(CLOUD, agents=False) as session:
        yield session


@pytest.fixture(params=IMPLEMENTATIONS)
def implementation(request: pytest.FixtureRequest) -> str:
    name = str(request.param)
    if not available(name):
        pytest.skip(f"no {name}")
    return name


def environment(builds: Builds, implementation: str, more: Mapping[str, str] = {}) -> dict[str, str]:
    """Return the variables of ranks that tune themselves and print what they did."""
    shim = builds.once(f"trees-{implementation}.so", lambda path: build_shim(path, mpicc=compiler(implementation)))
    return {"LD_PRELOAD": str(shim), "GAVOTTE_TUNE": "self", "GAVOTTE_VERBOSE": "1", **more}


def run(session: lab.Session, implementation: str, folder: Path, own: Mapping[str, str], *words: str) -> str:
    """Run the program of the tests; return what it printed on stderr."""
    program: list[str | Path] = [PROGRAM, *words]
    ran = launch(
        session, implementation, program, ranks=RANKS, scratch=folder, environment=own, timeout_s=200, calm=True
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == f"{words[0]} turns on 5 ranks"
    return ran.stderr


def test_every_operation_is_tuned_and_keeps_its_results(
    session: lab.Session, builds: Builds, tmp_path: Path, implementation: str
) -> None:
    own = environment(builds, implementation, {"GAVOTTE_REORDER_SUMS": "on"})
    seen = tuned(run(session, implementation, tmp_path, own, "10"))
    of_world = {(each.operation, each.root): each for each in seen if each.ranks == 5}
    rooted = {(name, root) for name in ("broadcast", "scatter", "gather", "reduce") for root in (0, 4)}
    assert set(of_world) == rooted | {("allgather", None), ("allreduce", None)}
    assert {"the library", "exchange"} <= of_world["allgather", None].tried
    always = [each for each in of_world.values() if each.operation in ("scatter", "gather", "broadcast")]
    assert all(each.tried > {"the library"} for each in always), of_world
    assert any(each.ranks == 4 and each.tried > {"the library"} for each in seen), "parts of the world are tuned, too"


@pytest.mark.rare
def test_sums_of_floats_stay_in_the_library_unless_they_may_be_reordered(
    session: lab.Session, builds: Builds, tmp_path: Path, implementation: str
) -> None:
    seen = tuned(run(session, implementation, tmp_path, environment(builds, implementation), "6"))
    of_world = {each.operation: each.times for each in seen if each.ranks == 5}
    assert of_world["allgather"] == 12
    assert of_world["allreduce"] == 6, "integers alone"


def test_small_operations_stay_in_the_library(
    session: lab.Session, builds: Builds, tmp_path: Path, implementation: str
) -> None:
    own = environment(builds, implementation, {"GAVOTTE_MIN_BYTES": "1000000"})
    assert tuned(run(session, implementation, tmp_path, own, "3")) == []


def test_one_variable_turns_it_off(session: lab.Session, builds: Builds, tmp_path: Path, implementation: str) -> None:
    trees = tmp_path / "trees.txt"
    trees.write_text(shim_text([plan(network(4), "broadcast", size_bytes=80_000, root="h0", ranks=RANKS)]))
    own = environment(builds, implementation, {"GAVOTTE_TUNE": "off", "GAVOTTE_TREES": str(trees)})
    message = run(session, implementation, tmp_path, own, "2")
    assert tuned(message) == []
    assert "gavotte: broadcast: 0 taken over" in message
    along = run(session, implementation, tmp_path, {**own, "GAVOTTE_TUNE": "self"}, "2")
    assert "gavotte: broadcast: 0 taken over" not in along, "given trees are used instead"


def test_a_rank_that_does_not_want_it(
    session: lab.Session, builds: Builds, tmp_path: Path, implementation: str
) -> None:
    message = run(session, implementation, tmp_path, environment(builds, implementation), "2", "80000", "one-without")
    assert message.count("gavotte: nothing is tuned: not all ranks have GAVOTTE_TUNE=self") == 1
    assert tuned(message) == []


@pytest.mark.rare
def test_a_slow_root_sends_to_one_rank_alone(builds: Builds, tmp_path: Path, implementation: str) -> None:
    """A binomial tree takes several times as long as the chain or tree that is found."""
    program: list[str | Path] = [PROGRAM.with_name("broadcasts.py"), "20", "400000"]
    hosts = [f"s{i}" for i in range(6)]
    own = environment(builds, implementation)
    if implementation == "mpich":
        own |= {"MPIR_CVAR_BCAST_INTRA_ALGORITHM": "binomial"}
    else:
        own |= {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_bcast_algorithm": "6"}
    with lab.session(SLOW, agents=False) as session:
        ran = launch(
            session, implementation, program, ranks=hosts, scratch=tmp_path, environment=own, timeout_s=200, calm=True
        )
    assert ran.returncode == 0, ran.stderr
    (seen,) = tuned(ran.stderr)
    assert {"the library", "exchange", "tree", "chain"} <= seen.tried
    assert seen.kept in ("tree", "chain"), ran.stderr


@pytest.mark.skipif(shutil.which("gfortran") is None, reason="gfortran is not installed")
def test_programs_in_fortran(builds: Builds, tmp_path: Path, implementation: str) -> None:
    mpifort = (
        str(Path(compiler(implementation)).with_name("mpifort")) if implementation == "mpich" else "mpifort.openmpi"
    )
    if shutil.which(mpifort) is None:
        pytest.skip(f"no {mpifort}")
    program, source = tmp_path / "tuned", PROGRAM.with_name("tuned.f90")
    subprocess.run([mpifort, "-o", program, source], check=True, timeout=100)
    own = environment(builds, implementation)
    if implementation == "openmpi":
        line = [launcher(implementation), "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "4"]
        line += [word for key, value in own.items() for word in ("-x", f"{key}={value}")]
    else:
        line = [launcher(implementation), "-n", "4"]
        line += [word for key, value in own.items() for word in ("-genv", key, value)]
    ran = subprocess.run([*line, program], capture_output=True, text=True, timeout=100, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.split() == ["done"]
    seen = {each.operation: each for each in tuned(ran.stderr)}
    assert set(seen) == {"broadcast", "allgather", "reduce", "allreduce"}
    assert seen["broadcast"].root == 1
    assert all(each.times == 12 for each in seen.values())
