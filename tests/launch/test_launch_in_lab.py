"""Real launchers in a lab: a job runs, is counted, is placed at its second run, and ends as it would anyway."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.building import Builds
from tests.shell import GAVOTTE, gavotte, processes_of, until

from gavotte import lab
from gavotte.formats.inventory import read_inventory, write_inventory
from gavotte.formats.network import write_network
from gavotte.formats.trace import Isend, Send, parse_trace, passes
from gavotte.store import open_store

pytestmark = pytest.mark.lab

MPICH = Path(sys.executable).parents[1] / "mpich" / "bin"
needs_openmpi = pytest.mark.skipif(shutil.which("mpicc.openmpi") is None, reason="Open MPI is not installed")
needs_mpich = pytest.mark.skipif(not (MPICH / "mpicc").exists(), reason="MPICH is not installed")
RACKS = builders.topology(
    [
        {"name": host, "switch": rack, "egress": "200mbit"}
        for host, rack in zip("abcd", ("l", "l", "r", "r"), strict=True)
    ],
    switches=["core", {"name": "l", "up": "40mbit"}, {"name": "r", "up": "40mbit"}],
)
LINES = {
    "openmpi": ["mpirun.openmpi", "-N", "1", "-n", "4", "--mca", "btl", "tcp,self"],
    "mpich": [str(MPICH / "mpiexec"), "-n", "4", "-ppn", "1"],
}
LIBRARIES = [pytest.param("openmpi", marks=needs_openmpi), pytest.param("mpich", marks=needs_mpich)]
BYTES = 400_000


@dataclass(frozen=True)
class Job:
    """Launches in a lab, with a store, a cache and a Network of their own."""

    session: lab.Session
    folder: Path
    programs: dict[str, Path]
    environment: dict[str, str]

    def words(self, library: str, *program: object, options: tuple[object, ...] = ()) -> list[str]:
        own = ["launch", "--hosts", "lab", "--store", self.folder / "store", *options]
        return [*map(str, own), "--", *LINES[library], str(self.programs[library]), *map(str, program)]

    def run(self, library: str, *program: object, options: tuple[object, ...] = ()) -> subprocess.CompletedProcess[str]:
        known = ("--network", self.folder / "n.network.json", *options)
        return gavotte(*self.words(library, *program, options=known), cwd=self.folder, env=self.environment)

    def result(self, library: str, *program: object, options: tuple[object, ...] = ()) -> dict[str, Any]:
        ran = self.run(library, *program, options=("--json", self.folder / "run.json", *options))
        assert ran.returncode == 0, ran.stderr
        document: dict[str, Any] = json.loads((self.folder / "run.json").read_text())
        # Each rank printed its number and its host.
        hosts = dict(line.split() for line in ran.stdout.splitlines())
        assert [hosts[str(rank)] for rank in range(4)] == document["order"]
        return document

    def left(self) -> list[Path]:
        """Return the folders of runs that are left."""
        return list(Path(self.environment["XDG_CACHE_HOME"]).rglob("run-*"))


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(RACKS) as session:
        yield session


def _compile(line: list[str], path: Path) -> None:
    subprocess.run([*line, path], check=True, timeout=100)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache folder for all tests: to build what counts takes seconds."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def job(session: lab.Session, builds: Builds, cache: Path, tmp_path: Path) -> Job:
    source = Path(__file__).parent / "programs" / "pairs.c"
    compilers = {"openmpi": "mpicc.openmpi", "mpich": str(MPICH / "mpicc")}

    programs = {}
    for name, compiler in compilers.items():
        if shutil.which(compiler):
            line = [compiler, "-O2", str(source), "-o"]
            programs[name] = builds.once(f"pairs-{name}", partial(_compile, line))
    groups = [
        {"name": name, "members": list(members), "up_bps": 38e6, "down_bps": 38e6}
        for name, members in (("l", "ab"), ("r", "cd"))
    ]
    rates = [[None if m == n else 190e6 if m // 2 == n // 2 else 38e6 for n in range(4)] for m in range(4)]
    network = builders.network("abcd", rates, egress_bps=190e6, ingress_bps=190e6, groups=groups, sharing="groups")
    write_network(tmp_path / "n.network.json", network)
    environment = {**session.environment(), "XDG_CACHE_HOME": str(cache), "TMPDIR": str(tmp_path)}
    return Job(session, tmp_path, programs, environment)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_the_second_run_is_placed_by_the_messages_of_the_first(job: Job, library: str) -> None:
    first = job.result(library, BYTES)
    assert (first["profiled"], first["placed"], first["order"]) == (True, False, list("abcd"))
    assert first["predicted_s"] is None
    assert first["traced"]
    assert 4 * BYTES <= first["moved_bytes"] < 4.2 * BYTES
    second = job.result(library, BYTES)
    assert (second["profiled"], second["placed"]) == (False, True)
    # Partners share a rack now, but no host.
    assert second["moved_bytes"] == first["moved_bytes"]
    racks = ["ab" if host in "ab" else "cd" for host in second["order"]]
    assert racks[0] == racks[2] != racks[1] == racks[3]
    assert second["messages_s"] < 0.5 * second["default_messages_s"]
    assert second["low_s"] <= second["predicted_s"] <= second["high_s"]
    assert second["default_predicted_s"] == pytest.approx(first["wall_s"])
    assert not second["traced"]
    with open_store(str(job.folder / "store")) as store:
        content = store.trace(first["job"])
    assert content is not None
    trace = parse_trace(content, "store")
    assert trace.complete
    sent = [
        sum(each.bytes * n for each, n in passes(r.operations) if isinstance(each, Send | Isend)) for r in trace.ranks
    ]
    assert min(sent) >= BYTES
    # Other arguments make another job.
    assert job.result(library, BYTES + 1)["profiled"]
    listed = gavotte("launch", "--history", "--store", job.folder / "store", "--json")
    runs = json.loads(listed.stdout)["runs"]
    assert [run["job"] for run in runs] == [first["job"], first["job"], runs[2]["job"]]
    assert [(run["order"], run["status"], run["placed"]) for run in runs[:2]] == [
        (first["order"], 0, False),
        (second["order"], 0, True),
    ]
    assert runs[1]["predicted_s"] == second["predicted_s"]
    shown = gavotte("launch", "--history", "--store", job.folder / "store")
    assert shown.stdout.count(first["job"]) == 2
    assert job.left() == []


@pytest.mark.slow
@needs_openmpi
def test_an_order_that_was_slower_twice_is_dropped(job: Job) -> None:
    job.result("openmpi", BYTES)
    assert job.result("openmpi", BYTES)["placed"]
    with open_store(str(job.folder / "store")) as store:
        own, placed = store.records("launch")
        store.delete_records("launch")
        slower = [
            placed.model_copy(update={"value": own.value + more, "time_s": placed.time_s + more}) for more in (1, 2)
        ]
        store.add_records([own, slower[0]])
    one = job.run("openmpi", BYTES, options=("--dry-run",)).stdout
    assert "\nmessages take " in one
    with open_store(str(job.folder / "store")) as store:
        store.add_records(slower)
    two = job.run("openmpi", BYTES, options=("--dry-run",)).stdout
    assert "\norder: a b c d\n" in two
    assert f"not worth it: runs took at least {own.value + 1:.3g} s in another order" in two


@pytest.mark.slow
@needs_openmpi
def test_hosts_are_measured_if_the_store_has_no_network(job: Job) -> None:
    options = ("--json", job.folder / "run.json")
    words = job.words("openmpi", 1000, options=options)
    first = gavotte(*words, cwd=job.folder, env=job.environment, timeout=300)
    assert first.returncode == 0, first.stderr
    assert json.loads((job.folder / "run.json").read_text())["measured"]
    # The cost comes before the measurement.
    lines = first.stderr.splitlines()
    assert lines[0] == "Network: none younger than 24 h is known, measuring"
    assert " paths in " in lines[1]
    second = gavotte(*words, cwd=job.folder, env=job.environment)
    document = json.loads((job.folder / "run.json").read_text())
    assert (document["measured"], document["profiled"]) == (False, False)
    assert second.stderr.startswith("Network: series launch-")
    # Without measuring, a measurement that is too old leaves the launcher's own order.
    old = job.words("openmpi", 1000, options=(*options, "--max-age", "0", "--no-measure"))
    assert gavotte(*old, cwd=job.folder, env=job.environment).returncode == 0
    document = json.loads((job.folder / "run.json").read_text())
    assert (document["network"], document["placed"], document["messages_s"]) == ("unknown", False, None)


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_job_ends_as_it_would_without(job: Job, library: str) -> None:
    failed = job.run(library, 1000, 1, "fail")
    assert failed.returncode == 3
    died = job.run(library, 1000, 1, "die")
    assert died.returncode != 0
    missing = gavotte(
        *job.words(library, options=("--no-measure",))[:-1], "/nowhere/solver", cwd=job.folder, env=job.environment
    )
    assert missing.returncode not in (0, 1, 2) or "solver" in missing.stderr
    assert "Traceback" not in failed.stderr + died.stderr + missing.stderr
    # A run that failed keeps no messages.
    again = job.run(library, 1000, 1, "fail")
    assert "first run, its messages are counted" in again.stderr
    assert job.left() == []


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
def test_stdin_reaches_the_first_rank(job: Job, library: str) -> None:
    words = job.words(library, 1000, 1, "cat", options=("--no-measure",))
    ran = gavotte(*words, input="one\ntwo\n", cwd=job.folder, env=job.environment)
    assert ran.returncode == 0, ran.stderr
    assert {"one", "two"} <= set(ran.stdout.splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_job_and_leaves_nothing(job: Job, library: str, number: int) -> None:
    mark = f"GAVOTTE_MARK={job.folder}"
    environment = job.environment | {"GAVOTTE_MARK": str(job.folder)}
    words = job.words(library, 1000, 1, "wait", options=("--no-measure",))
    with subprocess.Popen(
        [GAVOTTE, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=job.folder,
        env=environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) != 0
    until(lambda: not processes_of(mark))
    assert job.left() == []


@pytest.mark.slow
@needs_openmpi
def test_a_dry_run_shows_the_line_and_writes_nothing(job: Job) -> None:
    words = job.words("openmpi", BYTES, options=("--dry-run", "--network", job.folder / "n.network.json"))
    job.environment["XDG_CACHE_HOME"] = str(job.folder / "cache")
    before = sorted(job.folder.rglob("*"))
    first = gavotte(*words, cwd=job.folder, env=job.environment)
    assert first.returncode == 0, first.stderr
    lines = first.stdout.splitlines()
    program = job.programs["openmpi"]
    assert lines[0] == f"mpirun.openmpi --hostfile ORDER -np 4 --mca btl tcp,self {program} {BYTES}"
    assert lines[1:] == [
        "order: a b c d",
        "own order of Open MPI 4: a b c d",
        "the messages are unknown, so the launcher's own order stays",
        "wall time: unknown until the job has run once",
    ]
    unmeasured = gavotte(*job.words("openmpi", BYTES, options=("--dry-run",)), cwd=job.folder, env=job.environment)
    assert unmeasured.stderr == "Network: none is known for these hosts; a run would measure first\n"
    assert sorted(job.folder.rglob("*")) == before
    app = builders.app(
        "x", ("rank0", "rank2", 10**7), ("rank1", "rank3", 10**7), tasks=[f"rank{rank}" for rank in range(4)]
    )
    from gavotte.formats.app import write_app

    write_app(job.folder / "x.app.toml", app)
    placed = gavotte(*words[:1], "--app", job.folder / "x.app.toml", *words[1:], cwd=job.folder, env=job.environment)
    assert "--mca rmaps seq --hostfile ORDER --bind-to none -np 4" in placed.stdout
    assert "\nmessages take 0.421 s instead of 4.21 s\n" in placed.stdout


@pytest.mark.slow
@needs_openmpi
def test_what_hinders_is_one_line_and_the_program_runs_where_it_can(job: Job) -> None:
    refusals = {
        "5 ranks do not fit on 4 hosts with 4 slots": ["mpirun.openmpi", "-N", "1", "-n", "5", "hostname"],
        "`--map-by` of mpirun.openmpi contradicts an order": ["mpirun.openmpi", "--map-by", "node", "hostname"],
        "`./solver` is not a launcher": ["./solver"],
    }
    for message, words in refusals.items():
        own = ["launch", "--hosts", "lab", "--no-measure", "--store", str(job.folder / "store"), "--"]
        refused = gavotte(*own, *words, cwd=job.folder, env=job.environment)
        assert (refused.returncode, refused.stdout) == (1, ""), refused.stderr
        assert message in refused.stderr
        assert refused.stderr.count("error: ") == 1
    others = builders.network(["a", "b"], 1e8)
    write_network(job.folder / "others.network.json", others)
    refused = job.run("openmpi", options=("--network", job.folder / "others.network.json"))
    assert "the Network has no host `c`; measure these hosts, or leave --network out" in refused.stderr
    # The folder of the store is missing, and the program does not use MPI.
    ran = gavotte(
        *["launch", "--hosts", "lab", "--no-measure", "--store", str(job.folder / "none" / "store"), "--"],
        *["mpirun.openmpi", "-N", "1", "hostname"],
        cwd=job.folder,
        env=job.environment,
    )
    assert (ran.returncode, sorted(ran.stdout.split())) == (0, list("abcd"))
    warnings = [line for line in ran.stderr.splitlines() if line.startswith("warning: ")]
    assert len([line for line in warnings if "this run does without the store" in line]) == 1
    assert "will be placed" not in ran.stderr
    assert any("no rank left counts of its messages: is it an MPI program?" in line for line in warnings)


@pytest.mark.slow
@needs_openmpi
def test_a_host_that_does_not_answer_is_left_out(job: Job) -> None:
    inventory = read_inventory(job.session.hosts_file)
    gone = inventory.host[1].model_copy(update={"agent": "unix:/nonexistent/b.sock"})
    changed = inventory.model_copy(update={"host": [inventory.host[0], gone, *inventory.host[2:]]})
    write_inventory(job.folder / "cloud.hosts.toml", changed)
    # A file of ours is no lab to Gavotte, so the command starts on a host of the lab.
    own = [
        "launch",
        "--hosts",
        str(job.folder / "cloud.hosts.toml"),
        "--store",
        str(job.folder / "store"),
        "--no-measure",
    ]
    words = [str(GAVOTTE), *own, "--", "mpirun.openmpi", "-N", "1", "hostname"]
    ran = job.session.run("a", words, capture_output=True, text=True, timeout=100, env=job.environment)
    assert (ran.returncode, sorted(ran.stdout.split())) == (0, list("acd")), ran.stderr
    assert "warning: 1 host left out, without an answer: b (" in ran.stderr
    # Without any agent the launcher still has its own ways.
    hosts = [host.model_copy(update={"agent": gone.agent, "cpus": 1.0}) for host in inventory.host]
    write_inventory(job.folder / "cloud.hosts.toml", inventory.model_copy(update={"host": hosts}))
    ran = job.session.run("a", words, capture_output=True, text=True, timeout=100, env=job.environment)
    assert (ran.returncode, sorted(ran.stdout.split())) == (0, list("abcd")), ran.stderr
    assert "warning: no agent answers, so nothing is measured: a, b, c, ... (" in ran.stderr


@pytest.mark.slow
@needs_openmpi
def test_one_variable_turns_it_off(job: Job) -> None:
    environment = {**job.environment, "GAVOTTE_LAUNCH": "off", **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1"}
    environment["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    words = ["launch", "--hosts", "nowhere", "--store", str(job.folder / "store"), "--"]
    command = ["mpirun.openmpi", "-n", "2", "--oversubscribe", "sh", "-c", 'echo "$LD_PRELOAD."; exit 5']
    ran = gavotte(*words, *command, cwd=job.folder, env=environment | {"GAVOTTE_LAUNCH": "off"}, fresh=True)
    assert (ran.returncode, ran.stdout) == (5, ".\n.\n")
    assert not (job.folder / "store").exists()
