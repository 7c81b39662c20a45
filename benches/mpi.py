"""Starts real MPI programs across the hosts of a lab, with Open MPI or MPICH."""

from __future__ import annotations

import atexit
import contextlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from gavotte import lab
from gavotte.errors import GavotteError, UnsupportedError

IMPLEMENTATIONS = ("openmpi", "mpich")
MPICH = Path(sys.prefix) / "mpich"
"""Build by MPICH's maintainers. Debian's 4.0.2 over TCP may hang at its end: one rank waits for others that no longer
listen.
"""


def available(implementation: str) -> bool:
    """Whether its launcher and its compiler are installed."""
    return all(shutil.which(command) for command in (launcher(implementation), compiler(implementation)))


def compiler(implementation: str) -> str:
    """Its C compiler."""
    return str(MPICH / "bin" / "mpicc") if implementation == "mpich" else f"mpicc.{implementation}"


def launcher(implementation: str) -> str:
    """The program that starts its programs."""
    return str(MPICH / "bin" / "mpiexec") if implementation == "mpich" else f"mpirun.{implementation}"


def loss_based(session: lab.Session, hosts: Sequence[str]) -> None:
    """Make CUBIC, the default of nearly all servers, the congestion control of hosts.

    Under BBR, the default of some machines, shallow shapers drop up to 45 % of a 400 kB message, and one in ten takes
    half as long again. Under Reno a ring of 4 Mbit/s links takes 12 % longer than their rates allow. Namespaces may only
    use what the machine allows all its programs, so this process allows them CUBIC until it ends. It must be root for
    that; otherwise they use Reno.
    """
    allow_cubic()
    setting = "/proc/sys/net/ipv4/tcp_congestion_control"
    for host in hosts:
        line = f"echo cubic > {setting} || echo reno > {setting}"
        done = session.run(host, ["sh", "-c", line], capture_output=True, text=True, timeout=10)
        if done.returncode:
            raise GavotteError(f"{host} keeps its congestion control", hint=done.stderr.strip()[-200:])


@cache
def allow_cubic() -> None:
    """Allow all programs of the machine CUBIC until this process ends."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    with contextlib.suppress(OSError):
        before = allowed.read_text()
        if "cubic" not in before.split():
            allowed.write_text(f"{before.strip()} cubic")
            atexit.register(allowed.write_text, before)


def received_bytes(session: lab.Session, hosts: Sequence[str]) -> list[int]:
    """Return the bytes that each host's link has received: the proof that ranks did not meet in this machine's memory."""
    items = []
    for host in hosts:
        listing = session.run(host, ["cat", "/proc/net/dev"], capture_output=True, text=True, timeout=10).stdout
        (line,) = (line for line in listing.splitlines() if line.strip().startswith("eth0:"))
        items.append(int(line.split()[1]))
    return items


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
) -> subprocess.CompletedProcess[str]:
    """Run a Python program with mpi4py, one process a rank, started from the first rank's host.

    Args:
        session: the lab.
        implementation: one of `IMPLEMENTATIONS`.
        program: the script and its arguments.
        ranks: host of each rank.
        scratch: a folder of this run's own.
        environment: more variables for every rank.
        timeout_s: after which it is ended.
        calm: whether all waiting ranks of Open MPI sleep, as in `calm.c`. MPICH's would never end: UCX
            counts polls.

    Raises:
        UnsupportedError: when the implementation is not installed.
    """
    if not available(implementation):
        raise UnsupportedError(f"there is no {implementation}", hint="`make setup` says why")
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
        # When mpirun 4.1.4 binds ranks of a `seq` job, it may crash as it frees its topology at the end: in some
        # environments each time.
        line = [launcher(implementation), "--allow-run-as-root", "--bind-to", "none"]
        line += ["--hostfile", str(hosts), "-np", str(len(ranks))]
        line += [word for key, value in mca.items() for word in ("--mca", key, value)]
        line += [word for key, value in own.items() for word in ("-x", f"{key}={value}")]
    else:
        # Without these settings UCX and libfabric find the machine's memory under all hosts of a lab.
        wires = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "eth0", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
        own |= {"LD_LIBRARY_PATH": str(MPICH / "lib"), "MPIR_CVAR_NOLOCAL": "1"} | wires
        line = [launcher(implementation), "-f", str(hosts), "-n", str(len(ranks)), "-iface", "eth0"]
        line += [word for key, value in own.items() for word in ("-genv", key, value)]
    return session.run(
        ranks[0],
        [*line, sys.executable, *map(str, program)],
        env=session.environment(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
