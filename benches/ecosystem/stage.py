"""A lab of two racks behind slower uplinks, in which jobs of real frameworks run, and Gavotte's answers about it."""

from __future__ import annotations

import json
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benches import mpi

from gavotte import lab
from gavotte.campaign.drivers.cgroups import Groups
from gavotte.formats.app import App, read_app, write_app
from gavotte.formats.campaign import Flavour
from gavotte.formats.inventory import read_inventory
from gavotte.formats.topology import FORMAT, Topology

GAVOTTE = Path(sys.executable).with_name("gavotte")
HOSTS, RACKS, WORKERS = 8, 2, 4
HOST_MBIT, UPLINK_MBIT = 60, 40
"""Four hosts of 60 Mbit/s share an uplink of 40: it is oversubscribed six times. Without racks, uplinks have no limit."""
SLOW_MBIT, SLOW = 15, (2, 5)
"""Rate of one host in each rack of an uneven cloud, and the numbers of these hosts. Four hosts of one rack always include one."""
CORES = 2.0
"""Cores that the hosts of a job share. Each host has an equal part of them, whatever the machine has."""
PERIOD_US = 10_000
WORTH_IT = 0.01
"""Least share of the time on the network that other hosts must save, as for `gavotte launch`."""
START_S, COMMAND_S = 120.0, 900.0
"""Longest that a daemon may take to start; that a command, or a run of a job, may take."""


Asked = Callable[[str], float]
"""Runs a job by its name, and returns the seconds that it took."""


class FailedError(Exception):
    """A program that did not end with status 0, with its last output."""


def topology(kind: str) -> Topology:
    """Return hosts that are named in turn over the racks, as a provider lists them.

    Args:
        kind: `racks`, `equal` (uplinks have no limit), or `uneven` (each rack has a slow host).
    """
    up = {} if kind == "equal" else {"up": f"{UPLINK_MBIT}mbit"}
    slow = SLOW if kind == "uneven" else ()
    switches = [{"name": "core"}, *({"name": f"rack{i}", "parent": "core", **up} for i in range(RACKS))]
    hosts: list[dict[str, object]] = []
    for i in range(HOSTS):
        rate = f"{SLOW_MBIT if i in slow else HOST_MBIT}mbit"
        hosts.append({"name": f"h{i}", "switch": f"rack{i % RACKS}", "egress": rate, "ingress": rate, "cpus": 1.0})
    return Topology.model_validate({"format": FORMAT, "switch": switches, "host": hosts})


@dataclass(frozen=True)
class Chosen:
    """Hosts of a job, chosen by Gavotte or by a scheduler that it informs.

    Attributes:
        hosts: the hosts, in the order of the job's own.
        low_s: lower end of the predicted wall time's 95 % interval; None = no prediction.
        high_s: upper end.
        lost: share by which the time on the network is above that of the best placement found.
    """

    hosts: tuple[str, ...]
    low_s: float | None
    high_s: float | None
    lost: float


@dataclass(frozen=True)
class Stage:
    """A lab that is up.

    Attributes:
        session: the lab.
        folder: scratch folder.
        groups: the control groups that limit the hosts' processors.
    """

    session: lab.Session
    folder: Path
    groups: Groups

    @cached_property
    def addresses(self) -> dict[str, str]:
        """Address of each host."""
        return {host.name: host.address for host in read_inventory(self.session.hosts_file).host}

    @property
    def hosts(self) -> list[str]:
        """Names of the hosts, as the provider lists them."""
        return list(self.addresses)

    def gavotte(self, *words: object) -> str:
        """Run a command of ours, and return what it printed.

        Raises:
            FailedError: when it fails.
        """
        return _run([str(GAVOTTE), *map(str, words)], cwd=self.folder, env=self.session.environment())

    def run(self, host: str, words: Sequence[object], env: Mapping[str, str]) -> str:
        """Run a program on a host, within its part of the processors, and return what it printed.

        Raises:
            FailedError: when it fails.
        """
        line = self.session.command(host, self.groups.joining(host, [str(word) for word in words]))
        return _run(line, cwd=self.folder, env={**self.session.environment(), **env})

    @contextmanager
    def running(self, host: str, words: Sequence[object], log: Path, env: Mapping[str, str]) -> Iterator[None]:
        """Run a daemon on a host, within its part of the processors."""
        with log.open("ab") as stream:
            process = self._start(host, words, env, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)
        with _ended(process):
            yield

    @contextmanager
    def asking(self, host: str, words: Sequence[object], log: Path, env: Mapping[str, str]) -> Iterator[Asked]:
        """Run a program that answers each line, a job, by a line with the seconds that this job took."""
        with log.open("ab") as stream:
            process = self._start(
                host, words, env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stream, text=True
            )
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(job: str) -> float:
            asked.write(f"{job}\n")
            asked.flush()
            ready, _, _ = select.select([answers], [], [], COMMAND_S)
            for line in iter(answers.readline, "") if ready else ():
                if line.startswith("seconds "):
                    return float(line.split()[1])
            raise FailedError(f"{job}: {log.read_text(errors='replace').strip()[-1500:]}")

        with _ended(process):
            yield ask

    @staticmethod
    def until(ready: Callable[[], bool], log: Path) -> None:
        """Wait until something has started.

        Raises:
            FailedError: with the end of the log, when it takes too long.
        """
        end_s = time.monotonic() + START_S
        while not ready():
            if time.monotonic() > end_s:
                raise FailedError(f"did not start: {log.read_text(errors='replace').strip()[-1500:]}")
            time.sleep(0.3)

    def _start(
        self, host: str, words: Sequence[object], env: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[Any]:
        line = self.session.command(host, self.groups.joining(host, [str(word) for word in words]))
        return subprocess.Popen(line, cwd=self.folder, env={**self.session.environment(), **env}, **options)

    def measure(self) -> None:
        """Measure the network once: the file that all placements use."""
        self.gavotte("measure", "--hosts", "lab", "--sharing", "-o", "cloud.npz")
        self.gavotte("model", "cloud.npz", "-o", "cloud.network.json")

    @contextmanager
    def watched(self, name: str) -> Iterator[None]:
        """Count what the hosts send each other, and write it as the job's App."""
        tasks = self.folder / "tasks"
        tasks.write_text("".join(f"{address} {host}\n" for host, address in self.addresses.items()))
        words = ["profile", "live", "--hosts", "lab", "--tasks", tasks, "--name", name, "-o", self.app(name), "--force"]
        process = subprocess.Popen(
            [str(GAVOTTE), *map(str, words)],
            cwd=self.folder,
            env=self.session.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield
        finally:
            process.send_signal(signal.SIGINT)
            _, complaint = process.communicate(timeout=60)
        if not self.app(name).exists():
            raise FailedError(f"profile live: {complaint.strip()[-500:]}")

    def app(self, name: str) -> Path:
        """Return the file of a job's App."""
        return self.folder / f"{name}.app.toml"

    def choose(self, name: str, hosts: Sequence[str], took_s: Sequence[float], *, onto: Sequence[str] = ()) -> Chosen:
        """Place a job that ran on these hosts and took these seconds; each of its hosts is a task of one core.

        Args:
            name: name of the job's App.
            hosts: where it ran.
            took_s: wall time of each run.
            onto: hosts that a scheduler chose; empty = the search chooses.
        """
        write_app(self.app(name), _only(read_app(self.app(name)), hosts))
        place = ["place", "cloud.network.json", self.app(name), "--time-limit", 3]
        self.gavotte(*place, *_pinned(hosts, hosts), "-o", "before.placement.json")
        ran = ["--ran", "before.placement.json", *(word for each in took_s for word in ("--took", f"{each:.3f}"))]
        best = json.loads(self.gavotte(*place, *ran, "--json"))
        document = json.loads(self.gavotte(*place, *ran, *_pinned(hosts, onto), "--json")) if onto else best
        forecast = document["forecast"]
        before_s, after_s = forecast["modelled_s"]
        lost = after_s / best["forecast"]["modelled_s"][1] - 1
        if not onto and after_s > (1 - WORTH_IT) * before_s:
            return Chosen(tuple(hosts), statistics.fmean(took_s), statistics.fmean(took_s), 0.0)
        placed = tuple(document["assignment"][host] for host in hosts)
        return Chosen(placed, forecast["low_s"], forecast["high_s"], lost)


def _pinned(tasks: Sequence[str], hosts: Sequence[str]) -> list[str]:
    """Return options that keep each task on one host; those that have both keep their own."""
    left = [host for host in hosts if host not in tasks]
    own = {task: task if task in hosts else left.pop(0) for task in tasks}
    return [word for task, host in own.items() for word in ("--only", f"{task}={host}")]


def _only(app: App, hosts: Sequence[str]) -> App:
    """Return the App with these tasks alone: others only took part by the bench's own traffic."""
    known = {task.name: task for task in app.task}
    return App.model_validate(
        {
            "format": app.format,
            "name": app.name,
            "task": [known[host].model_dump() if host in known else {"name": host} for host in hosts],
            "transfer": [
                {"source": each.source, "target": each.target, "bytes": each.bytes}
                for each in app.transfer
                if each.source in hosts and each.target in hosts
            ],
        }
    )


@contextmanager
def _ended(process: subprocess.Popen[Any]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(20)


def _run(line: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> str:
    try:
        ended = subprocess.run(
            line, cwd=cwd, env=dict(env), capture_output=True, text=True, timeout=COMMAND_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise FailedError(f"{line[-1]} took more than {COMMAND_S:.0f} s") from None
    if ended.returncode:
        raise FailedError(f"status {ended.returncode}: {(ended.stdout + ended.stderr).strip()[-1500:]}")
    return ended.stdout


@contextmanager
def staged(kind: str, sharing_hosts: int | None) -> Iterator[Stage]:
    """Start a lab and measure it.

    Args:
        kind: as for `topology`.
        sharing_hosts: number of hosts that together have `CORES`; None = hosts have no limits.
    """
    cloud = topology(kind)
    with ExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="gvt-eco-", ignore_cleanup_errors=True)))
        # Groups can only be removed when the lab's processes have ended.
        groups = ends.enter_context(closing(Groups(PERIOD_US)))
        session = ends.enter_context(lab.session(cloud, source="bench-ecosystem"))
        stage = Stage(session, folder, groups)
        for host in stage.hosts if sharing_hosts is not None else ():
            groups.add(host, [])
            groups.limit(host, Flavour(name="part", cpus=CORES / (sharing_hosts or 1)))
        mpi.loss_based(session, stage.hosts)
        stage.measure()
        yield stage
