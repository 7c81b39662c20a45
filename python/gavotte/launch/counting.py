"""Count and trace the messages of a run by the preloaded library, and make the App of the job from the counts."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from gavotte.collective import build_shim
from gavotte.errors import FormatError, GavotteError, UnsupportedError
from gavotte.formats.app import App
from gavotte.formats.trace import MpiTrace, parse_trace
from gavotte.profile import Request, app_of, read_traffic

COUNTS = "job"
"""Begin of the names of the ranks' files."""

PATIENCE_S = 2.0
"""How long files of ranks may take to appear in a folder that hosts share, in seconds."""

_PREPROCESS_S = 30.0
_FAMILIES = {"openmpi": "OMPI_MAJOR_VERSION", "mpich": "MPICH_VERSION"}
"""MPI libraries, with the macro by which `mpi.h` names each."""
_LIBRARIES = {
    "openmpi": (b"libmpi.so.40", b"libmpi.so.20", b"libmpi.so.80"),
    "mpich": (b"libmpich.so", b"libmpi.so.12"),
}


def family_of(program: str) -> str:
    """Return the MPI library that a program is linked with; empty if the program does not show it."""
    path = shutil.which(program)
    try:
        content = Path(path).read_bytes() if path else b""
    except OSError:
        return ""
    if not content.startswith(b"\x7fELF"):
        return ""
    return next((name for name, marks in _LIBRARIES.items() if any(mark in content for mark in marks)), "")


def compiler_of(family: str, launcher: str) -> str:
    """Return the C compiler of an MPI library, next to the launcher or from PATH.

    Raises:
        UnsupportedError: when none is installed.
    """
    path = shutil.which(launcher)
    folders = [Path(path).parent, Path(path).resolve().parent] if path else []
    names = [f"mpicc.{family}", "mpicc"]
    for each in [*(str(folder / name) for folder in folders for name in names), *names]:
        if shutil.which(each) and _is_of(each, family):
            return each
    raise UnsupportedError(f"no mpicc of this MPI library ({family})", hint="install its development package")


def _is_of(compiler: str, family: str) -> bool:
    """Return whether a compiler has the header of an MPI library."""
    line = [compiler, "-E", "-dM", "-include", "mpi.h", "-x", "c", os.devnull]
    try:
        ran = subprocess.run(line, capture_output=True, text=True, timeout=_PREPROCESS_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0 and f"#define {_FAMILIES[family]}" in ran.stdout


def library(root: Path, family: str, launcher: str, *, counting: bool = True) -> Path:
    """Return the library that is preloaded, which is built on first use for each compiler.

    Args:
        root: folder for files of runs, which all hosts share.
        family: MPI library of the program.
        launcher: the launcher, next to which the compiler may be.
        counting: whether it counts messages; False = it carries out collectives along trees.

    Raises:
        GavotteError: when there is no compiler, or it fails.
    """
    compiler = compiler_of(family, launcher)
    program = Path(shutil.which(compiler) or compiler).resolve()
    state = program.stat()
    digest = hashlib.sha256(f"{program} {state.st_size} {state.st_mtime_ns}".encode())
    for source in sorted(resources.files("gavotte.collective").iterdir(), key=lambda each: each.name):
        if source.name.startswith(("counting", "tracing") if counting else "shim") and source.name.endswith(
            (".c", ".h")
        ):
            digest.update(source.read_bytes())
    path = root / f"{'count' if counting else 'trees'}-{family}-{digest.hexdigest()[:12]}.so"
    if not path.exists():
        root.mkdir(parents=True, exist_ok=True)
        build_shim(path, mpicc=compiler, counting=counting)
    return path


def variables(shim: Path, folder: Path, own: str) -> dict[str, str]:
    """Return the variables of ranks that are counted and traced.

    Args:
        shim: the library.
        folder: folder for the ranks' files.
        own: the LD_PRELOAD that ranks would have anyway; empty = none.
    """
    preload = f"{shim}:{own}" if own else str(shim)
    prefix = str(folder / COUNTS)
    return {"LD_PRELOAD": preload, "GAVOTTE_COUNTS": prefix, "GAVOTTE_TRACE": prefix}


def collect(folder: Path, ranks: int, name: str) -> tuple[App, int, Sequence[str]]:
    """Make the App of a run from the files that its ranks left.

    Returns:
        The App with one task for each rank, the bytes that ranks sent each other, and what may be wrong with the
        counts.

    Raises:
        GavotteError: when ranks left no file, or no bytes went between two ranks.
    """
    deadline = time.monotonic() + PATIENCE_S
    while len(files := sorted(folder.glob(f"{COUNTS}.*.pmpi"))) < ranks and time.monotonic() < deadline:
        time.sleep(0.05)
    where = f"name a folder that all hosts share by --scratch, if {folder.parent} is none"
    if not files:
        raise GavotteError("no rank left counts of its messages: is it an MPI program?", hint=where)
    traffic = read_traffic("pmpi", Request(files))
    missing = int(traffic.seen["missing_ranks"])
    if len(files) < ranks or missing:
        raise GavotteError(f"{max(missing, ranks - len(files))} of {ranks} ranks left no counts", hint=where)
    if int(traffic.seen["ranks"]) != ranks:
        raise FormatError(str(files[0]), "line 1", f"is of {traffic.seen['ranks']} ranks", f"expected {ranks}")
    made = app_of(traffic, name=name)
    return made.app, traffic.attributed_bytes, traffic.warnings


def collect_trace(folder: Path, ranks: int) -> tuple[bytes, MpiTrace]:
    """Return the trace of a run from the files that its ranks left, after `collect`: the bytes of one file, and itself.

    Raises:
        FormatError: when a rank left no trace, or a trace is damaged.
    """
    content = b"".join(
        each.read_bytes() for rank in range(ranks) if (each := folder / f"{COUNTS}.{rank}.trace").exists()
    )
    return content, parse_trace(content, str(folder))
