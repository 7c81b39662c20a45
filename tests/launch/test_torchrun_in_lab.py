"""Torchrun on the hosts of a lab: counted by its sockets, placed at its second run, ended as a whole.

Most tests start a short program in torchrun's place: torch takes 600 MB and ten seconds a start. The last one runs the
real torchrun where it is installed.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests import builders
from tests.hosts.cluster import Cluster, cluster, lacking
from tests.shell import GAVOTTE, gavotte, processes_of, until

from gavotte import lab
from gavotte.formats.network import write_network

pytestmark = [pytest.mark.lab, pytest.mark.slow]

PROGRAMS = Path(__file__).parent / "programs"
EXCHANGE = str(PROGRAMS / "exchange.py")
RACKS = builders.topology(
    [
        {"name": host, "switch": rack, "egress": "200mbit"}
        for host, rack in zip("abcd", ("l", "r", "l", "r"), strict=True)
    ],
    switches=["core", {"name": "l", "up": "40mbit"}, {"name": "r", "up": "40mbit"}],
)
BYTES = 600_000


@dataclass(frozen=True)
class Job:
    """Launches in a lab, with a store and a Network of their own."""

    session: lab.Session
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        own = {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.folder / "cache")}
        return {**self.session.environment(), **own, "GAVOTTE_MARK": str(self.folder)}

    def words(self, *torchrun: object, options: tuple[object, ...] = ()) -> list[str]:
        known = ["--store", self.folder / "store", "--network", self.folder / "n.network.json", *options]
        return [*map(str, ["launch", "--hosts", "lab", *known]), "--", "torchrun", *map(str, torchrun)]

    def run(self, *torchrun: object, options: tuple[object, ...] = ()) -> subprocess.CompletedProcess[str]:
        return gavotte(*self.words(*torchrun, options=options), cwd=self.folder, env=self.environment)

    def result(self, *torchrun: object) -> tuple[dict[str, Any], dict[str, str]]:
        """Return what a run reports, and the host that each rank printed."""
        ran = self.run(*torchrun, options=("--json", self.folder / "run.json"))
        assert ran.returncode == 0, ran.stderr
        return json.loads((self.folder / "run.json").read_text()), dict(
            line.split() for line in ran.stdout.splitlines()
        )

    def nothing_is_left(self) -> None:
        until(lambda: not processes_of(f"GAVOTTE_MARK={self.folder}"))


@pytest.fixture(scope="module")
def session() -> Iterator[lab.Session]:
    with lab.session(RACKS) as session:
        yield session


@pytest.fixture
def job(session: lab.Session, tmp_path: Path) -> Job:
    groups = [
        {"name": name, "members": list(members), "up_bps": 38e6, "down_bps": 38e6}
        for name, members in (("l", "ac"), ("r", "bd"))
    ]
    rates = [[None if m == n else 190e6 if m % 2 == n % 2 else 38e6 for n in range(4)] for m in range(4)]
    network = builders.network("abcd", rates, egress_bps=190e6, ingress_bps=190e6, groups=groups, sharing="groups")
    write_network(tmp_path / "n.network.json", network)
    return Job(session, tmp_path)


def crossings(order: list[str]) -> int:
    """Return how many hosts of a ring are in another rack than the next one."""
    return sum(("ac".find(m) < 0) != ("ac".find(n) < 0) for m, n in zip(order, order[1:] + order[:1], strict=True))


def test_the_second_run_orders_hosts_by_what_their_ranks_sent(job: Job) -> None:
    first, hosts = job.result("--nproc-per-node", 2, EXCHANGE, BYTES)
    assert (first["profiled"], first["placed"], first["order"]) == (True, False, list("abcd"))
    assert [hosts[str(rank)] for rank in range(8)] == list("aabbccdd")
    # Eight ranks send to the next host.
    assert 8 * BYTES <= first["moved_bytes"] < 8.2 * BYTES
    second, hosts = job.result("--nproc-per-node", 2, EXCHANGE, BYTES)
    assert (second["profiled"], second["placed"], second["job"]) == (False, True, first["job"])
    assert [hosts[str(rank)] for rank in range(8)] == [host for host in second["order"] for _ in range(2)]
    assert (crossings(first["order"]), crossings(second["order"])) == (4, 2)
    assert second["messages_s"] < 0.6 * second["default_messages_s"]
    assert job.result("--nproc-per-node", 1, EXCHANGE, BYTES)[0]["job"] != first["job"]
    job.nothing_is_left()


def test_a_dry_run_shows_the_line_of_each_host(job: Job) -> None:
    ran = job.run("--nnodes", 2, EXCHANGE, 9, options=("--dry-run",))
    assert ran.returncode == 0, ran.stderr
    address = job.session.status().hosts[0].address
    given = f"--nnodes 2 --node_rank NODE_RANK --rdzv_backend static --master_addr {address}"
    assert ran.stdout.splitlines()[:2] == [f"on each host: torchrun {given} {EXCHANGE} 9", "order: a b"]


def test_hosts_that_cannot_be_reached_are_one_line(job: Job) -> None:
    words = ["launch", "--network", str(job.folder / "n.network.json"), "--store", str(job.folder / "store")]
    ran = gavotte(*words, "--", "torchrun", EXCHANGE, "9", cwd=job.folder, env=job.environment)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "error: the hosts cannot be reached by a Network alone; name them by --hosts, too" in ran.stderr


def test_a_missing_torchrun_is_one_line_before_anything_is_measured(job: Job) -> None:
    words = ["launch", "--hosts", "lab", "--store", str(job.folder / "store"), "--", "./torchrun", EXCHANGE, "9"]
    ran = gavotte(*words, cwd=job.folder, env=job.environment)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: a, b, c and d: no program `./torchrun`; each host of the job needs it; else leave these hosts out\n"
    )


def test_one_that_fails_ends_all(job: Job) -> None:
    failed = job.run(EXCHANGE, 9, "fail")
    assert failed.returncode == 1
    assert "warning: b failed first, with status 1, so all others were ended" in failed.stderr
    assert "Traceback" not in failed.stderr
    job.nothing_is_left()


def test_stdin_reaches_the_first_host(job: Job) -> None:
    ran = gavotte(
        *job.words("--nnodes", 2, EXCHANGE, BYTES, "cat"), input="one\ntwo\n", cwd=job.folder, env=job.environment
    )
    assert ran.returncode == 0, ran.stderr
    assert {"one", "two"} <= set(ran.stdout.splitlines())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_job_and_leaves_nothing(job: Job, number: int) -> None:
    with subprocess.Popen(
        [GAVOTTE, *job.words(EXCHANGE, 9, "wait")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=job.folder,
        env=job.environment,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(number)
        assert process.wait(60) != 0
    job.nothing_is_left()


@pytest.fixture
def over_ssh(tmp_path: Path) -> Iterator[Cluster]:
    if reason := lacking():
        pytest.skip(reason)
    with cluster(tmp_path) as made:
        yield made


@pytest.mark.rare
def test_hosts_are_reached_over_ssh(over_ssh: Cluster, tmp_path: Path) -> None:
    environment = {**os.environ, "PATH": f"{PROGRAMS}:{os.environ['PATH']}", "GAVOTTE_MARK": str(tmp_path)}
    known = ["launch", "--hosts", str(over_ssh.inventory), "--store", str(tmp_path / "store"), "--no-measure"]
    words = [*known, "--", "torchrun", EXCHANGE, str(BYTES)]
    ran = over_ssh.gavotte(*words, env=environment)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["0 a", "1 b", "2 c", "3 d"]
    assert "the next run will be placed by its messages" in ran.stderr
    # A signal reaches the other ends of the connections.
    with over_ssh.start(*words, "wait", env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) != 0
    until(lambda: not processes_of(f"GAVOTTE_MARK={tmp_path}\0"))


def _torchrun() -> str | None:
    """Return the real torchrun, if it starts."""
    path = shutil.which("torchrun")
    ran = path and subprocess.run([path, "--help"], capture_output=True, timeout=100, check=False)
    return path if ran and ran.returncode == 0 else None


RING = """
import socket, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
sums = torch.ones(int(sys.argv[1]))
dist.all_reduce(sums)
sys.stdout.write(f"{dist.get_rank()} {socket.gethostname()}\\n")
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.timeout(600)
def test_a_ring_of_the_real_torch_crosses_racks_twice(job: Job) -> None:
    torchrun = _torchrun()
    if torchrun is None:
        pytest.skip("torch is not installed")
    (job.folder / "ring.py").write_text(RING)
    orders = []
    for _ in range(2):
        # Debian's 1.13 on Python 3.11 knows no other values than 1 and 2 for these, not even its default of 0.
        output = ("--redirects", 1, "--tee", 1)
        words = job.words(*output, "ring.py", 1_000_000, options=("--json", job.folder / "run.json"))
        words[words.index("torchrun")] = torchrun
        ran = gavotte(*words, cwd=job.folder, env=job.environment, timeout=250)
        assert ran.returncode == 0, ran.stderr
        orders.append(json.loads((job.folder / "run.json").read_text())["order"])
        hosts = dict(line.rpartition("]:")[2].split() for line in ran.stdout.splitlines())
        assert [hosts[str(rank)] for rank in range(4)] == orders[-1]
    assert [crossings(order) for order in orders] == [4, 2]
