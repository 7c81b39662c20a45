"""LAMMPS as a batch job on some nodes: by Slurm alone, and by Slurm with the topology that was measured."""

from __future__ import annotations

import re
import secrets
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

from benches.ecosystem.comparing import Row, in_turns, slug
from benches.ecosystem.stage import WORKERS, FailedError, Stage
from benches.launch.job import MCA, calm_library
from examples.programs.loop import HERE, PROGRAMS, VARIABLES

CONTROLLER, NODE, MUNGED = "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged"
JOBS = ("LAMMPS melt",)
SHARING = WORKERS


def version() -> str:
    """Return the version of the real component; empty if it or what it runs is not installed."""
    if not all(map(shutil.which, (CONTROLLER, NODE, MUNGED, "lmp", "mpirun"))):
        return ""
    done = subprocess.run([CONTROLLER, "-V"], capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.split()[-1]


class Slurm:
    """Slurm on all hosts of a lab, with its controller on the first."""

    def __init__(self, stage: Stage, folder: Path, environment: dict[str, str]) -> None:
        self.stage, self.folder, self.environment = stage, folder, environment
        self.calm = calm_library(folder)

    def seconds(self, job: str) -> float:
        """Run a job; return its seconds alone."""
        return self.run(job)[0]

    def run(self, job: str) -> tuple[float, list[str]]:
        """Run a job on `WORKERS` nodes of Slurm's choice; return its seconds and the nodes."""
        name = job.split()[1]
        place = self.folder / "job"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        PROGRAMS[name].make_ready(place, self.environment)
        line = [word.format(inputs=HERE) for word in PROGRAMS[name].line]
        words = ["mpirun", "-n", str(WORKERS), "--map-by", "node", "--hostfile", str(place / "nodes")]
        words += ["--wdir", str(place), "--bind-to", "none", "-x", f"LD_PRELOAD={self.calm}"]
        words += [
            word for key, value in (MCA | {"plm": "rsh", "ras": "^slurm"}).items() for word in ("--mca", key, value)
        ]
        words += [word for key in VARIABLES for word in ("-x", key)]
        words += self.stage.groups.joining_by_name(line)
        times = "date +%s.%N >> times"
        script = f"scontrol show hostnames > nodes && {times} && {shlex.join(words)} > output 2>&1 && {times}"
        # The script starts on the job's first node, as for most users. Started on one host for both ways, jobs that
        # include this host took 0.07 s less.
        batch = ["sbatch", "--quiet", "--wait", "-N", str(WORKERS), "-D", str(place), "-o", "log", "--wrap", script]
        try:
            self.stage.run(self.stage.hosts[0], ["env", "-C", place, *batch], self.environment)
            begin_s, end_s = map(float, (place / "times").read_text().split())
        except (FailedError, OSError, ValueError) as error:
            output = place / "output"
            raise FailedError(f"{error} {output.read_text()[-1000:] if output.exists() else ''}") from None
        return end_s - begin_s, (place / "nodes").read_text().split()


def accepted(slurm: Slurm) -> str:
    """Return the switches that Slurm has read."""
    shown = slurm.stage.run(slurm.stage.hosts[0], ["scontrol", "show", "topology"], slurm.environment)
    return "; ".join(re.findall(r"SwitchName=\S+|Nodes=\S+", shown))


@contextmanager
def cluster(stage: Stage, port: int, *, measured: bool) -> Iterator[Slurm]:
    """Run Slurm, with the topology that `gavotte export` writes or without any."""
    folder = stage.folder / f"slurm-{port}"
    (folder / "state").mkdir(parents=True)
    head = stage.hosts[0]
    settings = {
        "ClusterName": f"lab{port}",
        "SlurmctldHost": f"{head}({stage.addresses[head]})",
        "SlurmctldPort": port,
        "SlurmdPort": port + 1,
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.sock'}",
        "MpiDefault": "none",
        "ProctrackType": "proctrack/pgid",
        "TaskPlugin": "task/none",
        "ReturnToService": 2,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_CPU",
        "SlurmdParameters": "config_overrides",
        "StateSaveLocation": folder / "state",
        "SlurmdSpoolDir": folder / "spool-%n",
        "SlurmctldPidFile": folder / "slurmctld.pid",
        "SlurmdPidFile": folder / "slurmd-%n.pid",
    }
    if measured:
        settings["TopologyPlugin"] = "topology/tree"
        stage.gavotte("export", "cloud.network.json", "--format", "slurm-conf", "-o", folder / "topology.conf")
    nodes = [f"NodeName={n} NodeAddr={address} NodeHostname={n} CPUs=1" for n, address in stage.addresses.items()]
    lines = [*(f"{key}={value}" for key, value in settings.items()), *nodes, "PartitionName=all Nodes=ALL Default=YES"]
    (folder / "slurm.conf").write_text("".join(f"{line}\n" for line in lines))
    key, log = folder / "munge.key", folder / "log"
    key.touch(mode=0o600)
    key.write_bytes(secrets.token_bytes(64))
    files = {"key-file": key, **{f"{kind}-file": folder / f"munge.{kind}" for kind in ("pid", "log", "seed")}}
    options = [f"--{name}={path}" for name, path in {**files, "socket": folder / "munge.sock"}.items()]
    environment = {"SLURM_CONF": str(folder / "slurm.conf"), **VARIABLES}
    with ExitStack() as ends:
        ends.enter_context(stage.running(head, [MUNGED, "--foreground", "--force", *options], log, environment))
        stage.until(lambda: (folder / "munge.sock").exists(), log)
        ends.enter_context(stage.running(head, [CONTROLLER, "-D"], log, environment))
        for host in stage.hosts:
            ends.enter_context(stage.running(host, [NODE, "-D", "-N", host], log, environment))
        idle = ["sinfo", "--noheader", "--Node", "--format=%t"]
        stage.until(lambda: _printed(stage, idle, environment).count("idle") == len(stage.hosts), log)
        yield Slurm(stage, folder, environment)


def _printed(stage: Stage, words: list[str], environment: dict[str, str]) -> str:
    try:
        return stage.run(stage.hosts[0], words, environment)
    except FailedError:
        return ""


def compared(stage: Stage, runs: int, seed: int) -> Iterator[Row]:
    """Run each job under Slurm without a topology, and with the measured one."""
    with cluster(stage, 6817, measured=False) as alone, cluster(stage, 6827, measured=True) as informed:
        read = accepted(informed)
        for job in JOBS:
            with stage.watched(slug(job)):
                first_s, before = alone.run(job)
            _, after = informed.run(job)
            chosen = stage.choose(slug(job), before, [first_s], onto=after)
            times = in_turns({"own": partial(alone.seconds, job), "ours": partial(informed.seconds, job)}, runs, seed)
            yield Row(f"Slurm {version()}", f"topology.conf: {read}", job, tuple(before), chosen, times)
