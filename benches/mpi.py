"""Starts real MPI programs across the hosts of a lab, with Open MPI or MPICH."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from pathlib import Path

from gavotte import lab
from gavotte.errors import GavotteError

IMPLEMENTATIONS = ("openmpi", "mpich")


def available(implementation: str) -> bool:
    """Whether its launcher is installed."""
    return shutil.which(f"mpirun.{implementation}") is not None


def loss_based(session: lab.Session, hosts: Sequence[str]) -> None:
    """Has programs that choose no congestion control use CUBIC, or Reno where the machine allows namespaces no other.

    Under BBR, the default of some machines, shallow shapers drop up to 45 % of a 400 kB message, and one in ten takes half
    as long again.
    """
    setting = "/proc/sys/net/ipv4/tcp_congestion_control"
    for host in hosts:
        line = f"echo cubic > {setting} || echo reno > {setting}"
        done = session.run(host, ["sh", "-c", line], capture_output=True, text=True, timeout=10)
        if done.returncode:
            raise GavotteError(f"{host} keeps its congestion control", hint=done.stderr.strip()[-200:])


def received_bytes(session: lab.Session, hosts: Sequence[str]) -> list[int]:
    """What each host's link has brought it so far: the proof that ranks did not meet in this machine's memory."""
    found = []
    for host in hosts:
        told = session.run(host, ["cat", "/proc/net/dev"], capture_output=True, text=True, timeout=10).stdout
        (line,) = (line for line in told.splitlines() if line.strip().startswith("eth0:"))
        found.append(int(line.split()[1]))
    return found


def launch(
    session: lab.Session,
    implementation: str,
    program: Sequence[str | Path],
    *,
    ranks: Sequence[str],
    scratch: Path,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 300.0,
    calm: bool = False,
    wired: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Runs a Python program with mpi4py, one process a rank, started from the first rank's host.

    Args:
        session: the lab.
        implementation: one of `IMPLEMENTATIONS`.
        program: the script and its arguments.
        ranks: host of each rank.
        scratch: a folder of this run's own.
        environment: more variables for every rank.
        timeout_s: after which it is ended.
        calm: ranks of Open MPI that wait sleep, as `calm.c` says, whatever they wait for. MPICH's would never end: UCX
            counts polls.
        wired: MPICH's ranks meet on the network; by themselves UCX and libfabric find the machine's memory under all hosts
            of a lab. MPICH 4.0 with UCX may not come to its end then: one rank waits for others that no longer listen.
    """
    own = {"OPENBLAS_NUM_THREADS": "1", "MPI4PY_MPIABI": implementation, **(environment or {})}
    if calm and implementation == "openmpi":
        library = scratch / "calm.so"
        if not library.exists():
            source = Path(__file__).with_name("calm.c")
            subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True, timeout=60)
        own["LD_PRELOAD"] = ":".join(filter(None, (str(library), own.get("LD_PRELOAD"))))
    hosts = scratch / "ranks.hosts"
    hosts.write_text("".join(f"{host}\n" for host in ranks))
    if implementation == "openmpi":
        mca = {
            "btl": "tcp,self",
            "btl_tcp_if_include": "eth0",
            "oob_tcp_if_include": "eth0",
            "mpi_yield_when_idle": "1",
            "rmaps": "seq",
            "orte_tmpdir_base": str(scratch),
        }
        # Where it binds ranks of a `seq` job, mpirun 4.1.4 may crash when it frees its topology at the end: in some
        # environments each time.
        line = ["mpirun.openmpi", "--allow-run-as-root", "--bind-to", "none"]
        line += ["--hostfile", str(hosts), "-np", str(len(ranks))]
        line += [word for key, value in mca.items() for word in ("--mca", key, value)]
        line += [word for key, value in own.items() for word in ("-x", f"{key}={value}")]
    else:
        # mpi4py looks for the library by the name that upstream gives it, which Debian leaves to Open MPI.
        name = find_library("mpich")
        for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib"):
            if name and (Path(folder) / name).exists() and not (scratch / "libmpi.so.12").exists():
                (scratch / "libmpi.so.12").symlink_to(Path(folder) / name)
        own |= {"LD_LIBRARY_PATH": str(scratch), "MPIR_CVAR_NOLOCAL": "1"}
        if wired:
            own |= {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
        line = ["mpiexec.hydra", "-f", str(hosts), "-n", str(len(ranks)), "-iface", "eth0"]
        line += [word for key, value in own.items() for word in ("-genv", key, value)]
    return session.run(
        ranks[0],
        [*line, sys.executable, *map(str, program)],
        env=session.environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
