"""A training in pods: where Kubernetes' scheduler alone puts them, where by measured racks, and where by asking Gavotte."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from benches.ecosystem.comparing import Row, in_turns, slug
from benches.ecosystem.stage import GAVOTTE, WORKERS, Asked, FailedError, Stage
from tests.serve.scheduler import configuration

ROOT = Path(__file__).parents[2]
KEPT, SCRIPTS = ROOT / "target" / "kubernetes", ROOT / "tests" / "campaign" / "cluster"
JOBS = ("gloo training in pods",)
SHARING = None
"""Pods have limits of their own, and the cluster's daemons none."""
API_PORT, SERVE_PORT = 6443, 8788
APART = (
    *("unshare", "-mpf", "--kill-child", "--mount-proc"),
    *("sh", "-c", 'mount -t tmpfs tmpfs /run && exec sh "$@"', "sh"),
)
"""Runs a script whose processes end with it, and whose /run is its own."""
INFORMED = {"group": "labels of nodes, PodGroup", "extended": "scheduler extender of gavotte serve"}
"""Ways in which the scheduler knows what was measured, and what it takes."""
LABEL = "fabric.topograph.run/tier-0"


def version() -> str:
    """Return the version of the real component; empty if it is not installed."""
    program = KEPT / "bin" / "kube-scheduler"
    if not program.exists() or not (KEPT / "unpacked").exists():
        return ""
    line = [str(program), "--version"]
    return subprocess.run(line, capture_output=True, text=True, check=True, timeout=30).stdout.split()[-1].lstrip("v")


class Kubernetes:
    """A cluster whose control plane is on the first host of a lab, and which has each host as a node."""

    def __init__(self, stage: Stage) -> None:
        self.stage, self.head = stage, stage.hosts[0]
        self.folder = stage.folder / "kubernetes"
        (self.folder / "job").mkdir(parents=True)
        self.nodes, self.log = stage.folder / "pods", self.folder / "daemons"
        self.kubeconfig = self.folder / "kubeconfig"
        programs = ":".join(f"{KEPT / where}" for where in ("bin", "up/usr/bin", "up/usr/sbin", "up/bin"))
        path = f"{programs}:{stage.session.environment()['PATH']}"
        self.environment = {"PATH": path, "KUBECONFIG": str(self.kubeconfig)}

    @contextmanager
    def running(self) -> Iterator[Asked]:
        """Start all parts; gives what runs `default: JOB`, `group: JOB` or `extended: JOB`."""
        with ExitStack() as ends:
            ends.callback(_remove_groups)
            control = [*APART, SCRIPTS / "control.sh", KEPT, self.folder, self.stage.addresses[self.head]]
            ends.enter_context(self.stage.running(self.head, control, self.log, self.environment))
            self.stage.until((self.folder / "ready").exists, self.log)
            for number, host in enumerate(self.stage.hosts):
                ends.enter_context(self.stage.running(host, self._node(number, host), self.log, self.environment))
            self.stage.until(
                lambda: self._ask("/api/v1/nodes").count("KubeletReady") == len(self.stage.hosts), self.log
            )
            program = [sys.executable, Path(__file__).with_name("kubernetes_program.py")]
            words = [*program, WORKERS, self.folder / "job", self.nodes]
            yield ends.enter_context(self.stage.asking(self.head, words, self.log, self.environment))

    @contextmanager
    def asking_gavotte(self, app: Path, placement: Path) -> Iterator[None]:
        """Run `gavotte serve`, which labels the nodes, and a scheduler that asks it about a Placement."""
        served = f"http://127.0.0.1:{SERVE_PORT}"
        files = ["--network", self.stage.folder / "cloud.network.json", "--placement", placement, "--app", app]
        config = self.folder / "scheduler.json"
        config.write_text(json.dumps(configuration(str(self.kubeconfig), served)))
        scheduler = ["kube-scheduler", "--config", config, "--secure-port=0"]
        with ExitStack() as ends:
            serve = [GAVOTTE, "serve", "--label-nodes", "--port", SERVE_PORT, *files]
            ends.enter_context(self.stage.running(self.head, serve, self.log, self.environment))
            self.stage.until(lambda: bool(self._curl(f"{served}/metrics")), self.log)
            self.stage.until(lambda: self._ask("/api/v1/nodes").count(f'"{LABEL}"') >= len(self.stage.hosts), self.log)
            ends.enter_context(self.stage.running(self.head, scheduler, self.log, self.environment))
            yield

    def pods(self) -> list[str]:
        """Return the nodes of the newest job's pods, in the order of their indices."""
        return self.nodes.read_text().split()

    def _node(self, number: int, host: str) -> list[object]:
        """Return the line that runs a node."""
        own = [
            KEPT,
            self.folder / host,
            host,
            self.stage.addresses[host],
            f"10.45.{number}.0/24",
            "gavotte.test/lab=yes",
        ]
        return [*APART, SCRIPTS / "kubelet.sh", *own, KEPT / "pause.tar", KEPT / "agent.tar"]

    def _ask(self, path: str) -> str:
        header = f"@{self.folder / 'header'}"
        return self._curl(f"https://{self.stage.addresses[self.head]}:{API_PORT}{path}", "-k", "-H", header)

    def _curl(self, url: str, *options: str) -> str:
        try:
            return self.stage.run(self.head, ["curl", "-sS", "--max-time", 5, *options, url], self.environment)
        except FailedError:
            return ""


def _remove_groups() -> None:
    """Remove the control groups of containers, which have ended with their nodes."""
    base = Path("/sys/fs/cgroup")
    for top in (base, *base.iterdir()):
        groups = sorted((top / "gavotte-pods").rglob("*/"), reverse=True) if (top / "gavotte-pods").is_dir() else []
        for group in (*groups, top / "gavotte-pods"):
            with suppress(OSError):
                group.rmdir()


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Run a job by the default scheduler, by the same with a PodGroup, and by one that asks `gavotte serve`."""
    cluster = Kubernetes(stage)
    component = f"Kubernetes {version()}"
    with cluster.running() as ask:
        for job in JOBS:
            name = slug(job)
            ask(f"default: {job}")
            with stage.watched(name):
                first_s = ask(f"default: {job}")
            before = cluster.pods()
            stage.choose(name, before, [first_s])
            placement = stage.folder / f"{name}.placement.json"
            app = stage.app(name)
            stage.gavotte("place", "cloud.network.json", app, "--time-limit", 3, "-o", placement)
            group = ["export", app, "--network", "cloud.network.json", "--format", "kubernetes-podgroup"]
            stage.gavotte(*group, "-o", cluster.folder / "job" / "group.yaml")
            with cluster.asking_gavotte(app, placement):
                chosen = {}
                for way in INFORMED:
                    ask(f"{way}: {job}")
                    chosen[way] = stage.choose(name, before, [first_s], onto=cluster.pods())
                times = in_turns({way: partial(ask, f"{way}: {job}") for way in ("default", *INFORMED)}, runs, seed)
            for way, accepted in INFORMED.items():
                both = {each: times[each] for each in ("default", way)}
                yield Row(component, accepted, f"{job}, {way}", tuple(before), chosen[way], both)
