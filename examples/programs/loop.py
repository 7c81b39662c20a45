"""Takes a real MPI program through the whole loop in a lab: capture, profile, place, run.

    python examples/programs/loop.py melt [-o FOLDER] [--method auto] [--network cloud.network.json]

Every step is a `gavotte` command, printed before it runs; FOLDER keeps all files, the rank file among them. The
programs are Debian's: lammps, cp2k, gromacs, openfoam.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gavotte.errors import GavotteError, UnsupportedError
from gavotte.formats.topology import read_topology
from gavotte.lab import Session, session

HERE = Path(__file__).parent
TOPOLOGY = HERE / "cloud.topology.toml"
RANKS = 12
SNAP_BYTES = 72
"""Linux cooked header 20, IPv4 20, TCP with time stamps 32: the headers and nothing of the payload."""
FLUSH_S = 0.5
"""Time for tcpdump to fetch the last packets from the kernel."""
JOB_S = 300.0
GAVOTTE = str(Path(sys.executable).parent / "gavotte")


@dataclass(frozen=True)
class Program:
    """A program and its input.

    Attributes:
        line: arguments of mpirun; `{inputs}` is the folder of this file.
        package: Debian's package of the program.
        prepare: commands to run first, in the job's folder.
    """

    line: tuple[str, ...]
    package: str
    prepare: tuple[tuple[str, ...], ...] = ()

    def make_ready(self, folder: Path, environment: Mapping[str, str]) -> None:
        """Run the preparing commands in an empty folder.

        Raises:
            GavotteError: with the last line of the output, when one fails.
        """
        for words in self.prepare:
            line = [word.format(inputs=HERE) for word in words]
            done = subprocess.run(
                line, cwd=folder, env=environment, capture_output=True, text=True, timeout=JOB_S, check=False
            )
            if done.returncode:
                said = (done.stderr or done.stdout).strip().splitlines() or ["no output"]
                raise GavotteError(f"`{line[0]}` left with status {done.returncode}", hint=said[-1])


def _lammps(name: str) -> Program:
    return Program(("lmp", "-in", f"{{inputs}}/{name}.in", "-log", "none"), "lammps")


PROGRAMS = {
    "melt": _lammps("melt"),
    "slab": _lammps("slab"),
    "salt": _lammps("salt"),
    "water": Program(("cp2k.popt", "-i", "{inputs}/water.inp"), "cp2k"),
    "spce": Program(
        ("gmx_mpi", "mdrun", "-s", "water.tpr", "-ntomp", "1", "-noconfout", "-nb", "cpu", "-deffnm", "water"),
        "gromacs",
        (
            ("cp", "-r", "{inputs}/spce/.", "."),
            ("gmx", "solvate", "-cs", "spc216.gro", "-box", "4", "4", "4", "-o", "box.gro", "-p", "topol.top"),
            ("gmx", "grompp", "-f", "water.mdp", "-c", "box.gro", "-p", "topol.top", "-o", "water.tpr"),
        ),
    ),
    "cavity": Program(
        ("icoFoam", "-parallel"),
        "openfoam",
        (("cp", "-r", "{inputs}/cavity/.", "."), ("blockMesh",), ("decomposePar", "-force")),
    ),
}

VARIABLES = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "WM_PROJECT_DIR": "/usr/share/openfoam"}


def available(name: str) -> bool:
    """Whether the program and Open MPI are installed."""
    return all(shutil.which(each) for each in ("mpirun", "tcpdump", PROGRAMS[name].line[0]))


class Loop:
    """One program in a running lab.

    Args:
        lab: the lab.
        name: one of `PROGRAMS`.
        folder: for all files.
        ranks: of the program; it is captured with one on each of the first hosts.
        show: whether to print each command before it runs.
    """

    def __init__(self, lab: Session, name: str, folder: Path, *, ranks: int = RANKS, show: bool = True) -> None:
        self._lab, self._name, self._folder, self._show = lab, name, folder, show
        self.hosts = [host.name for host in lab.status().hosts]
        self.first = self.hosts[:ranks]
        self.app = folder / f"{name}.app.toml"
        folder.mkdir(parents=True, exist_ok=True)

    def gavotte(self, *words: object) -> str:
        """Run one of our commands in `folder`, with `--hosts lab` for the lab; return its output.

        Raises:
            GavotteError: with its message, when it fails.
        """
        line = [GAVOTTE, *map(str, words)]
        if self._show:
            sys.stderr.write(f"$ gavotte {' '.join(line[1:])}\n")
        ran = subprocess.run(
            line, cwd=self._folder, env=self._lab.environment(), capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise GavotteError(ran.stderr.strip().splitlines()[-1].removeprefix("error: "))
        return ran.stdout

    def job(self, ranks: Sequence[str]) -> float:
        """Run the program with rank i on the i-th of these hosts; return its wall time in seconds.

        Raises:
            GavotteError: when it fails.
        """
        place = self._folder / "job"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        program = PROGRAMS[self._name]
        environment = {**self._lab.environment(), **VARIABLES}
        program.make_ready(place, environment)
        (place / "ranks").write_text("".join(f"{host}\n" for host in ranks))
        mca = {
            "btl": "tcp,self",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
            "mpi_yield_when_idle": "1",
            "rmaps": "seq",
            "orte_tmpdir_base": str(place),
            "orte_default_hostfile": str(place / "ranks"),
        }
        mpirun = ["mpirun", "--allow-run-as-root", "--bind-to", "none", "--wdir", str(place), "-np", str(len(ranks))]
        mpirun += [word for key, value in mca.items() for word in ("--mca", key, value)]
        mpirun += [word for key in VARIABLES for word in ("-x", key)]
        line = [*mpirun, *(word.format(inputs=HERE) for word in program.line)]
        began_s = time.monotonic()
        with (place / "output").open("w") as output:
            job = self._lab.exec(ranks[0], line, env=environment, stdout=output, stderr=subprocess.STDOUT)
            try:
                status = job.wait(JOB_S)
            finally:
                if job.poll() is None:
                    job.terminate()
        if status:
            lines = (place / "output").read_text(errors="replace").strip().splitlines()
            raise GavotteError(
                f"{self._name} left with status {status}", hint=lines[-1] if lines else "it printed nothing"
            )
        return time.monotonic() - began_s

    def profile(self) -> Path:
        """Capture one run with a rank on each of the first hosts, in their order, and make an App of it."""
        hosts = self.first
        captures = [f"{self._name}-{host}.pcap" for host in hosts]
        with capturing(self._lab, [(host, self._folder / file) for host, file in zip(hosts, captures, strict=True)]):
            self.job(hosts)
        addresses = {host.name: host.address for host in self._lab.status().hosts}
        lines = [f"{addresses[host]} rank-{rank:02}\n" for rank, host in enumerate(hosts)]
        (self._folder / "ranks.hosts").write_text("".join(lines))
        self.gavotte("profile", "pcap", *captures, "--tasks", "ranks.hosts", "--name", self._name, "-o", self.app)
        for capture in captures:
            (self._folder / capture).unlink()
        return self.app

    def place(self, network: Path, method: str, seed: int = 0) -> Path:
        """Place the App; return the Placement."""
        placement = self._folder / f"{self._name}-{method}-{seed}.placement.json"
        self.gavotte("place", network, self.app, "--method", method, "--seed", seed, "-o", placement)
        return placement

    def ranks(self, placement: Path) -> list[str]:
        """Export a Placement to a file that Open MPI reads; return the host of each rank."""
        file = placement.with_suffix(".ranks")
        self.gavotte("export", placement, "--format", "openmpi-seq", "-o", file)
        return file.read_text().split()

    def replay(self, placement: Path) -> float:
        """Send the App's bytes between the hosts of a Placement; return the seconds until the last had arrived."""
        return float(json.loads(self.gavotte("run", placement, self.app, "--hosts", "lab", "--json"))["completion_s"])


def measured(loop: Loop) -> Path:
    """Measure the cloud and make a Network of it."""
    loop.gavotte("measure", "--hosts", "lab", "--sharing", "-o", "cloud.npz")
    loop.gavotte("model", "cloud.npz", "--fill", "-o", "cloud.network.json")
    return loop.app.parent / "cloud.network.json"


@contextmanager
def capturing(lab: Session, targets: Sequence[tuple[str, Path]]) -> Iterator[None]:
    """Capture each host's egress while the block runs, so that every packet is captured once."""
    running: list[subprocess.Popen[str]] = []
    try:
        for host, target in targets:
            line = ["tcpdump", "-i", "eth0", "-Q", "out", "-B", "16384", "-s", str(SNAP_BYTES), "-Z", "root"]
            tcpdump = lab.exec(
                host, [*line, "--immediate-mode", "-w", str(target), "tcp"], stderr=subprocess.PIPE, text=True
            )
            running.append(tcpdump)
            assert tcpdump.stderr is not None
            message = ""
            while "listening on" not in message:
                message = tcpdump.stderr.readline()
                if not message:
                    raise GavotteError(f"tcpdump did not start on {host}")
        yield
        time.sleep(FLUSH_S)
    finally:
        # Not SIGINT, which is ignored below a shell's background job.
        for tcpdump in running:
            tcpdump.terminate()
        for tcpdump in running:
            tcpdump.communicate(timeout=JOB_S)


def main() -> int:
    """Place one program and run it before and after."""
    parser = argparse.ArgumentParser(description="take a real MPI program through the whole loop in a lab")
    parser.add_argument("program", choices=PROGRAMS)
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("programs"), help="folder of all files (default: programs)"
    )
    parser.add_argument("--method", default="auto", help="how to place [auto]")
    parser.add_argument("--network", type=Path, help="a Network measured before; else the lab is measured")
    asked = parser.parse_args()
    try:
        if not available(asked.program):
            package = PROGRAMS[asked.program].package
            raise UnsupportedError("a program is missing", hint=f"apt-get install openmpi-bin tcpdump {package}")
        with session(read_topology(TOPOLOGY), source=str(TOPOLOGY)) as lab:
            loop = Loop(lab, asked.program, asked.output.absolute())
            network = asked.network.absolute() if asked.network else measured(loop)
            loop.profile()
            ranks = loop.ranks(loop.place(network, asked.method))
            before_s, after_s = loop.job(loop.first), loop.job(ranks)
    except GavotteError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"one rank a host in their order {before_s:.1f} s, placed by {asked.method} {after_s:.1f} s\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
