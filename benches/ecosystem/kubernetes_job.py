"""A training in pods: where Kubernetes' scheduler alone puts them, where by measured racks, and where by asking Gavotte."""

from __future__ import annotations

import json
import secrets
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
GATES = "--feature-gates=GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
"""Kubernetes 1.37 starts a PodGroup in one domain, which is off by default."""
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
        self.nodes, self.log = stage.folder / "pods", self.folder / "log"
        self.kubeconfig = self.folder / "kubeconfig"
        programs = ":".join(f"{KEPT / where}" for where in ("bin", "up/usr/bin", "up/usr/sbin", "up/bin"))
        path = f"{programs}:{stage.session.environment()['PATH']}"
        self.environment = {"PATH": path, "KUBECONFIG": str(self.kubeconfig)}

    @contextmanager
    def running(self) -> Iterator[Asked]:
        """Start all parts; gives what runs `default: JOB`, `group: JOB` or `extended: JOB`."""
        with ExitStack() as ends:
            ends.callback(_remove_groups)
            for words in self._control_plane():
                ends.enter_context(self.stage.running(self.head, words, self.log, self.environment))
                if words[0] == "kube-apiserver":
                    self.stage.until(lambda: self._ask("/readyz") == "ok", self.log)
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

    def _control_plane(self) -> Iterator[list[object]]:
        folder, address = self.folder, self.stage.addresses[self.head]
        token = secrets.token_hex(16)
        (folder / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
        cluster = {
            "server": f"https://{address}:{API_PORT}",
            "certificate-authority": f"{folder / 'certs/apiserver.crt'}",
        }
        named = {
            "clusters": [{"name": "k", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        }
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "c", **named}))
        (folder / "header").write_text(f"Authorization: Bearer {token}\n")
        key = folder / "sa.key"
        subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, capture_output=True, timeout=60)
        yield ["etcd", "--data-dir", folder / "etcd", "--unsafe-no-fsync"]
        api = {
            "etcd-servers": "http://127.0.0.1:2379",
            "cert-dir": folder / "certs",
            "bind-address": address,
            "advertise-address": address,
            "secure-port": API_PORT,
            "service-cluster-ip-range": "10.96.0.0/16",
            "service-account-issuer": "https://gavotte.test",
            "service-account-key-file": key,
            "service-account-signing-key-file": key,
            "token-auth-file": folder / "tokens.csv",
            "authorization-mode": "RBAC",
            "kubelet-preferred-address-types": "InternalIP",
            "disable-admission-plugins": "ServiceAccount",
        }
        beta = "--runtime-config=scheduling.k8s.io/v1beta1=true"
        yield ["kube-apiserver", GATES, beta, *(f"--{name}={value}" for name, value in api.items())]
        common = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", "--secure-port=0"]
        kinds = ("job", "garbage-collector", "node-lifecycle", "namespace", "podgroup-protection")
        wanted = ",".join(f"{kind}-controller" for kind in kinds)
        yield ["kube-controller-manager", GATES, *common, f"--controllers={wanted}"]
        yield ["kube-scheduler", GATES, *common]

    def _node(self, number: int, host: str) -> list[object]:
        """Return the line that runs a node, whose processes end with it and whose /run is its own."""
        apart = [
            "unshare",
            "-mpf",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            'mount -t tmpfs tmpfs /run && exec "$@"',
            "sh",
        ]
        own = [
            KEPT,
            self.folder / host,
            host,
            self.stage.addresses[host],
            f"10.45.{number}.0/24",
            "gavotte.test/lab=yes",
        ]
        return [*apart, "sh", SCRIPTS / "kubelet.sh", *own, KEPT / "pause.tar", KEPT / "agent.tar"]

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
