"""One program of the benchmark in a lab: started by `gavotte launch`, or by its launcher in a given order."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from examples.programs.loop import GAVOTTE, HERE, JOB_S, PROGRAMS, RANKS, VARIABLES, Program

from gavotte.campaign.drivers.cgroups import Groups
from gavotte.formats.campaign import Flavour
from gavotte.lab import Session
from gavotte.launch.launchers import Wanted, recognise
from gavotte.launch.running import run

PAGERANK = Program(
    (sys.executable, str(HERE.parent / "pagerank" / "pagerank.py"), "--scale", "16", "--iterations", "30"), "mpi4py"
)
"""Irregular exchange: `Alltoallv` between ranks of very unequal blocks."""
KNOWN = {**PROGRAMS, "pagerank": PAGERANK}
MCA = {"btl": "tcp,self", "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0", "mpi_yield_when_idle": "1"}


CALM = Path(__file__).parents[1] / "calm.c"
PERIOD_US = 10_000
"""Period of a processor quota: a host with a sixth of a core pauses for 8 ms at a time, not for 80."""


def calm_library(folder: Path) -> Path:
    """Build the library that lets waiting ranks sleep."""
    library = folder / "calm.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, CALM], check=True, timeout=60)
    return library


def limited(hosts: Sequence[str], cores: int) -> Groups:
    """Make a control group for each host, so that `RANKS` hosts together have these cores.

    Raises:
        UnsupportedError: when the machine does not allow limits.
    """
    groups = Groups(PERIOD_US)
    for host in hosts:
        groups.add(host, [])
        groups.limit(host, Flavour(name="part", cpus=cores / RANKS))
    return groups


def available(name: str) -> bool:
    """Whether the program and Open MPI are installed."""
    return all(shutil.which(each) for each in ("mpirun", KNOWN[name].line[0]))


@dataclass(frozen=True)
class Job:
    """One program in a lab.

    Attributes:
        lab: the lab.
        folder: folder for its files, with the store.
        name: one of `KNOWN`.
        calm: the library that lets waiting ranks sleep.
        groups: the control groups of the hosts.
    """

    lab: Session
    folder: Path
    name: str
    calm: Path
    groups: Groups

    @property
    def store(self) -> str:
        """The store of all jobs of this lab."""
        return str(self.folder.parent / "store")

    @property
    def place(self) -> Path:
        """The folder that the program runs in."""
        return self.folder / "job"

    @property
    def words(self) -> list[str]:
        """The command line, without an order."""
        words = ["mpirun", "-n", str(RANKS), "--wdir", str(self.place)]
        words += [word for key, value in MCA.items() for word in ("--mca", key, value)]
        words += [word for key in VARIABLES for word in ("-x", key)]
        words += ["-x", f"LD_PRELOAD={self.calm}"]
        return [*words, *self.groups.joining_by_name([word.format(inputs=HERE) for word in KNOWN[self.name].line])]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the launcher."""
        return {**self.lab.environment(), **VARIABLES, "XDG_CACHE_HOME": str(self.folder / "cache")}

    def make_ready(self) -> None:
        """Empty the program's folder and prepare its input."""
        shutil.rmtree(self.place, ignore_errors=True)
        self.place.mkdir(parents=True)
        KNOWN[self.name].make_ready(self.place, self.environment)

    def launch(self, *options: str) -> dict[str, Any]:
        """Run `gavotte launch`; return its result.

        Raises:
            RuntimeError: with what it printed, when it fails.
        """
        self.make_ready()
        result, output = self.folder / "run.json", self.folder / "output"
        own = ["launch", "--hosts", "lab", "--store", self.store, "--json", str(result), *options]
        with output.open("w") as stream:
            status = subprocess.run(
                [GAVOTTE, *own, "--", *self.words],
                env=self.environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=JOB_S,
                check=False,
            ).returncode
        if status:
            raise RuntimeError(output.read_text(errors="replace")[-2000:])
        document: dict[str, Any] = json.loads(result.read_text())
        return document

    def in_order(self, hosts: Sequence[str], slots: dict[str, int]) -> float:
        """Run the program with rank i on the i-th of these hosts; return its wall time in seconds.

        Raises:
            RuntimeError: when it fails.
        """
        self.make_ready()
        launcher = recognise(self.words)
        file = self.folder / "order"
        placed = list(hosts) != launcher.default(RANKS, slots)
        start = launcher.start(launcher.read(self.words), Wanted(hosts, slots, placed, str(file)))
        file.write_text(start.text)
        words = ["sh", "-c", 'exec "$@" >quiet 2>&1', "sh", *start.words]
        ended = run(self.lab.command(hosts[0], ["env", "-C", str(self.folder), *words]), self.environment, entered=True)
        if ended.status:
            raise RuntimeError((self.folder / "quiet").read_text(errors="replace")[-2000:])
        return ended.wall_s
