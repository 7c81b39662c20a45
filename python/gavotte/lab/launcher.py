"""Command lines that run a program inside a lab, through util-linux's `nsenter`.

The program becomes a real child of the process that runs the line: terminal, signals and exit status pass through. It
joins the lab's PID namespace, and therefore dies with the lab.
"""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from gavotte.agents.runtime import LAB_VARIABLE, RUNTIME_DIR_VARIABLE
from gavotte.errors import UnsupportedError
from gavotte.formats.parts.names import known_as, unknown_host
from gavotte.lab.keeper import NAMESPACES
from gavotte.lab.state import LabState, write_aside

RSH = "rsh"
"""Script in the lab's folder that accepts the arguments of ssh: a host, then a command."""


def command(folder: Path, record: LabState, name: str, argv: Sequence[str]) -> list[str]:
    """Return the line that runs a program in a host's or switch's namespaces.

    Args:
        folder: the lab's folder.
        record: its `lab.json`.
        name: the host or switch; `machines/NAME` for the hypervisor under them.
        argv: the program and its arguments.

    Raises:
        GavotteError: when there is no such host.
        UnsupportedError: without `nsenter`.
    """
    nodes = {nodes for nodes, _ in (*record.hosts, *record.switches)}
    name = known_as(name, nodes)
    if name not in nodes and not name.startswith("machines/"):
        raise unknown_host(name, [host for host, _ in record.hosts], "the lab")
    kind = "net" if name.startswith("machines/") else "both"
    if record.inside:
        return [*_inner(folder, name, kind), *argv]
    return [*_outer(folder, record, name, kind), f"--wdns={_here()}", "--", *dying_with_parent(), *argv]


def check() -> None:
    """Make sure that programs can be run in a lab at all.

    Raises:
        UnsupportedError: without `nsenter`.
    """
    _nsenter()


def environment(folder: Path) -> dict[str, str]:
    """Return the variables that a program inside a lab, or outside for it, needs in addition to its caller's.

    With them `--hosts lab` means this lab. mpirun reaches the lab's hosts and runs as root, which the user is in a lab.
    """
    rsh = str(folder / RSH)
    return {
        LAB_VARIABLE: str(folder),
        RUNTIME_DIR_VARIABLE: str(folder.parent),
        "OMPI_MCA_plm_rsh_agent": rsh,
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_plm_ssh_agent": rsh,
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "HYDRA_LAUNCHER": "ssh",
        "HYDRA_LAUNCHER_EXEC": rsh,
    }


def write_rsh(folder: Path, record: LabState) -> None:
    """Write the ssh-like script. It starts no Python and works inside and outside the lab."""
    options = {True: _inner(folder, "$host", "both"), False: _outer(folder, record, "$host", "both")}
    lines = {inside: " ".join(_quoted(word) for word in words) for inside, words in options.items()}
    seen = _quoted(str(folder / NAMESPACES / "$host.net"))
    text = f"""#!/bin/sh
# rsh [-x] [-n] [-q] [-l USER] HOST COMMAND...: runs COMMAND on a host of the lab, as ssh would
while :; do
  case $1 in
    -l|-p|-o) shift 2 ;;
    -*) shift ;;
    *) break ;;
  esac
done
host=$1
shift
if [ -e {seen} ]; then
  exec {lines[True]} /bin/sh -c "$*"
fi
exec {lines[False]} -- {shlex.join(dying_with_parent())} /bin/sh -c "$*"
"""
    write_aside(folder / RSH, text, mode=0o700)


def _inner(folder: Path, name: str, kind: str) -> list[str]:
    return [_nsenter(), *_own(folder / NAMESPACES / name, kind), "--"]


def _outer(folder: Path, record: LabState, name: str, kind: str) -> list[str]:
    assert record.keeper is not None
    inside = Path(f"/proc/{record.keeper.pid}/root", *(folder / NAMESPACES / name).parts[1:])
    user = ["--user", "--preserve-credentials"] if record.rootless else []
    return [_nsenter(), f"--target={record.keeper.pid}", *user, "--mount", "--pid", "--ipc", *_own(inside, kind)]


def _own(path: Path, kind: str) -> list[str]:
    return [f"--net={path}.net", f"--uts={path}.uts"] if kind == "both" else [f"--net={path}.net"]


def _nsenter() -> str:
    program = shutil.which("nsenter", path=os.environ.get("PATH", os.defpath) + ":/usr/bin:/bin")
    if program is None:
        raise UnsupportedError("`nsenter` is not installed", hint="install util-linux")
    return program


def dying_with_parent() -> list[str]:
    """Return the prefix for a program that must not outlive its parent, such as nsenter, when the parent is killed."""
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", "TERM", "--"] if setpriv else []


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:  # removed meanwhile
        return "/"


def _quoted(word: str) -> str:
    """Quote for the shell, all but `$host`."""
    return "$host".join(shlex.quote(part) if part else "" for part in word.split("$host"))
