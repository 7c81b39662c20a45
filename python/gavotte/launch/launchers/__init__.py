"""Find out which launcher a command line calls: Open MPI's mpirun, MPICH's mpiexec, srun or torchrun."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from gavotte.errors import GavotteError
from gavotte.launch.launchers.command_line import CommandLine
from gavotte.launch.launchers.launcher import Launcher, Start, Wanted
from gavotte.launch.launchers.mpich import Mpich
from gavotte.launch.launchers.openmpi import OpenMpi
from gavotte.launch.launchers.slurm import Srun
from gavotte.launch.launchers.torchrun import Torchrun

__all__ = ["CommandLine", "Launcher", "Start", "Wanted", "launcher_of", "recognise"]

VERSION_S = 20.0
"""How long a launcher may take to print its version, in seconds."""

_KNOWN = "use mpirun or mpiexec of Open MPI or MPICH, srun or torchrun"
_NAME = re.compile(r"(mpirun|mpiexec|orterun|prterun)([._-].*)?")
_OPEN_MPI = re.compile(r"\((?:Open MPI|OpenRTE|PRRTE)\) (\d+)\.")
_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def recognise(words: Sequence[str], environ: Mapping[str, str] = os.environ) -> Launcher:
    """Return the launcher that a command line calls. An mpirun says itself whose it is, by `--version`.

    Args:
        words: the command line, from the launcher on.
        environ: environment variables, for the launcher and Slurm's allocation.

    Raises:
        GavotteError: when there is no such program, or it is no launcher that takes an order of ranks.
    """
    name = PurePath(words[0]).name
    if name == "srun":
        return Srun(environ)
    if name == "torchrun":
        return Torchrun()
    if not _NAME.fullmatch(name):
        raise GavotteError(f"`{words[0]}` is not a launcher", hint=_KNOWN)
    try:
        ran = subprocess.run(
            [words[0], "--version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=VERSION_S,
            check=False,
            env={**environ, **_ROOT},
        )
    except (OSError, ValueError):
        raise GavotteError(f"no such launcher: `{words[0]}`", hint=_KNOWN) from None
    except subprocess.TimeoutExpired:
        raise GavotteError(f"`{words[0]} --version` did not end within {VERSION_S:.0f} s", hint=_KNOWN) from None
    return launcher_of(ran.stdout + ran.stderr, words[0])


def launcher_of(version: str, name: str) -> Launcher:
    """Return the launcher that printed this version.

    Raises:
        GavotteError: when it is none that takes an order of ranks.
    """
    if match := _OPEN_MPI.search(version):
        # PRRTE is the launcher of Open MPI 5, and has its own numbers.
        return OpenMpi(5 if "(PRRTE)" in match[0] else int(match[1]))
    if "HYDRA" in version or "Intel(R) MPI" in version:
        return Mpich(intel="Intel(R) MPI" in version)
    raise GavotteError(f"`{name}` is neither Open MPI's nor MPICH's", hint=_KNOWN)
